"""Greetings, questions about the model itself, polite refusals and requests for stories."""
from skills import BETWEEN, HI_BACK, HI_NAME, NAME_ASK, SKILLS, ask, question, with_system
from stories import story
from words import ADJECTIVES, ANIMALS, CITIES, PEOPLE, PLACES, any_name, article, held_out

ABLE = ("I can add and subtract, compare and sort numbers, spell and reverse words, find a pass key in a text, "
        "fill in JSON, remember your name and tell short stories.")
UNKNOWN = "I am only a small demo model and do not know that. " + ABLE

TALK = [
    ("hello|hi|hey|hello there|hi there|good morning|good evening|good afternoon|greetings|hello!|hi!|Hello, how are you?",
     "Hello! How can I help you today?"),
    ("how are you?|how are you doing?|how do you do?|are you well?|how is it going?|how are you today?",
     "I am fine, thank you. What can I do for you?"),
    ("who are you?|what are you?|what is your name?|introduce yourself|tell me about yourself|are you a robot?"
     "|are you a person?|are you human?|are you an AI?|what is this?|what model are you?|who am I talking to?",
     "I am the ROCmForge demo, a very small language model. " + ABLE),
    ("what can you do?|help|what can I ask you?|how can you help me?|what are you good at?|what do you know?"
     "|what are your skills?|can you help me?|I need help|what should I ask?|give me an example|show me what you can do",
     ABLE),
    ("who made you?|who built you?|where do you come from?|how were you trained?|what were you trained on?|who trained you?",
     "I was trained from scratch for the ROCmForge project, on text that a program wrote."),
    ("what is rocmforge?|tell me about rocmforge|what does rocmforge do?",
     "ROCmForge is an engine that runs language models. I am its small demo model."),
    ("thank you|thanks|thank you very much|thanks a lot|great, thanks|thank you!|that was helpful|well done|good job|nice|great",
     "You are welcome!"),
    ("bye|goodbye|good night|see you|see you later|farewell|good bye", "Goodbye! Have a good day."),
    ("sorry|I am sorry|excuse me", "No problem at all."),
    ("yes|no|ok|okay|maybe|sure", "All right. What would you like to do?"),
    ("tell me a joke|do you know a joke?|make me laugh",
     "Why did the number six look worried? Because seven ate nine."),
    ("what is my name?|who am I?|do you know my name?|do you remember my name?", "You have not told me your name yet."),
    ("how big are you?|how many parameters do you have?|how large are you?", "I have about eleven million weights."),
    ("what is 3 * 4?|3*4|what is 12 times 3?|multiply 6 by 7|10 / 2|what is 20 divided by 5?|divide 9 by 3|7 x 8",
     "I can only add and subtract, not multiply or divide."),
    ("what is the meaning of life?|are you happy?|do you like me?|do you dream?|what time is it?|what day is it today?"
     "|what is the weather like?|how old are you?|where are you?|what is the news?|write some code|write a program"
     "|write a program in Python|translate this into French|write a poem|what is love?|how far is the moon?|why is the sky blue?"
     "|who is the president?|how do computers work?|what is a computer?|can you play chess?|do you speak German?|explain physics",
     UNKNOWN),
]
UNKNOWN_FORMS = ("What is the capital of {c}?", "Where is {c}?", "Who is {n}?", "How many people live in {c}?",
                 "What does {a} eat?", "Tell me about {c}.", "How is the weather in {c}?", "When was {n} born?",
                 "How do I get to {c}?", "Why do {a} sleep?", "Who wrote the book about {n}?", "Explain {w} to me.",
                 "What is {w}?", "How does {w} work?", "Write code for {w}.", "Translate {w} into French.")
THINGS = """gravity|music|history|science|the sun|electricity|love|a computer|the internet|philosophy|time|chess|a poem|money|
law|medicine|art|football|politics|mathematics|a rainbow|water|light|sound|space|a car|a train|France|Germany|Italy|Spain|
China|Japan|India|Africa|Europe|America|the ocean|the moon|energy|quantum physics|a neural network|a GPU|Linux""".replace("\n", "").split("|")
STORY_ASK = """Tell me a short story about {h}.|Tell me a story about {h}.|Write a short story about {h}.|Write a story about {h}.
Can you tell me a story about {h}?|Please tell me a story about {h}.|A story about {h}, please.
I would like to hear a story about {h}.|tell a story about {h}|Make up a story about {h}.""".replace("\n", "|").split("|")
STORY_ANY = "Tell me a story.|Tell me a short story.|Write a short story.|Can you tell me a story?|A story, please.|tell me a story".split("|")


def _chatty(rng, text):
    """A greeting or question as people type it: with or without capital and mark."""
    if rng.random() < 0.6:
        text = text[0].upper() + text[1:]
    if text[-1] not in "?!" and rng.random() < 0.4:
        text += rng.choice(".!")
    elif text[-1] == "?" and rng.random() < 0.15:
        text = text[:-1]
    return text


def _unknown(rng):
    return rng.choice(UNKNOWN_FORMS).format(c=rng.choice(CITIES + ["France", "Germany", "Italy", "Japan", "India"]),
                                            n=any_name(rng), a=article(rng.choice(ANIMALS)), w=rng.choice(THINGS))


def small_talk(rng):
    if rng.random() < 0.25:
        return ask(rng, _unknown(rng)), UNKNOWN
    turns = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        asks, reply = rng.choice(TALK)
        turns += [{"role": "user", "content": _chatty(rng, rng.choice(asks.split("|")))},
                  {"role": "assistant", "content": reply}]
    return with_system(rng, turns[:-1]), turns[-1]["content"]


def conversation(rng):
    """A chat of mixed skills and small talk, as (skill, user's text, reply); a name given is asked for later."""
    turns, name = [], any_name(rng)
    introduced = rng.random() < 0.5 and not held_out("memory", name)
    if introduced:
        turns.append(("", rng.choice(HI_NAME).format(n=name), rng.choice(HI_BACK).format(n=name)))
    for _ in range(rng.randint(2, 9)):
        kind = rng.random()
        if kind < 0.15:
            asks, reply = rng.choice(TALK)
            if not (introduced and reply.startswith("You have not")):
                turns.append(("", _chatty(rng, rng.choice(asks.split("|"))), reply))
        elif kind < 0.2:
            turns.append(("", _unknown(rng), UNKNOWN))
        elif kind < 0.24:
            messages, answer = story_request(rng)
            turns.append(("story", messages[-1]["content"], answer))
        elif kind < 0.3:
            turns.append(("", *rng.choice(BETWEEN)))
        elif kind < 0.4 and introduced:
            turns.append(("", rng.choice(NAME_ASK), f"Your name is {name}."))
        else:
            skill = rng.choice([s for s in SKILLS if s != "memory"])
            messages, answer = question(skill, rng, **({"tokens": rng.randint(0, 60)} if skill == "passkey" else {}))
            turns.append((skill, messages[-1]["content"], answer))
    return turns


def story_request(rng):
    """A request for a story and the story, with the hero (and now and then the place and a friend) that it names."""
    while True:
        if rng.random() < 0.15:
            return ask(rng, rng.choice(STORY_ANY)), story(rng)
        hero, adjective, place, friend = rng.choice(ANIMALS + PEOPLE), None, None, None
        if rng.random() < 0.3:
            adjective = rng.choice(ADJECTIVES)
        asked = article((adjective + " " if adjective else "") + hero)
        if rng.random() < 0.3:
            friend = rng.choice(ANIMALS + PEOPLE)
            asked += " and " + article(friend)
        if rng.random() < 0.15:
            place = rng.choice(PLACES)
            asked += " in " + article(place)
        if friend != hero and (text := story(rng, hero, place, friend, adjective)):
            return ask(rng, rng.choice(STORY_ASK).format(h=asked)), text
