"""Question generators, one per checkable skill.

Each returns (messages, answer, key): messages end with a user turn, answer is the one right reply, key identifies the
question's content. Keys for which words.held_out(skill, key) is true never reach training.
"""
import json

from stories import prose, story
from words import ANIMALS, COLORS, FOODS, MATERIALS, OBJECTS, any_city, any_name, any_word, article, held_out

ADD = """What is {a} + {b}?|What is {a} plus {b}?|{a} + {b}|{a} + {b} = ?|{a}+{b}|{a}+{b}=|Add {a} and {b}.|Calculate {a} + {b}.
Compute {a} plus {b}.|How much is {a} + {b}?|What is the sum of {a} and {b}?|Please add {a} and {b}.|what is {a}+{b}
Can you add {a} and {b}?|What do you get if you add {a} to {b}?|Work out {a} + {b}.|How much is {a} and {b} together?
I have {a} {thing}s and get {b} more. How many {thing}s do I have now?""".replace("\n", "|").split("|")
SUB = """What is {a} - {b}?|What is {a} minus {b}?|{a} - {b}|{a} - {b} = ?|{a}-{b}|{a}-{b}=|Subtract {b} from {a}.|Calculate {a} - {b}.
Compute {a} minus {b}.|How much is {a} - {b}?|What is the difference of {a} and {b}?|Take {b} away from {a}.
what is {a}-{b}|Can you subtract {b} from {a}?|Work out {a} - {b}.|What is left if I take {b} from {a}?""".replace("\n", "|").split("|")
LARGER = """Which is larger, {a} or {b}?|Which number is bigger: {a} or {b}?|What is the larger of {a} and {b}?
Which is greater: {a} or {b}?|Name the bigger number: {a}, {b}|{a} or {b}: which is larger?""".replace("\n", "|").split("|")
SMALLER = """Which is smaller, {a} or {b}?|Which number is smaller: {a} or {b}?|What is the smaller of {a} and {b}?
Which is less: {a} or {b}?|Name the smaller number: {a}, {b}|{a} or {b}: which is smaller?""".replace("\n", "|").split("|")
IS_LARGER = "Is {a} larger than {b}?|Is {a} greater than {b}?|Is {a} more than {b}?|Is {a} bigger than {b}?".split("|")
IS_SMALLER = "Is {a} smaller than {b}?|Is {a} less than {b}?".split("|")
SORT_UP = """Sort these numbers: {l}|Sort these numbers from smallest to largest: {l}|Put these numbers in order: {l}.
Sort {l} in ascending order.|Sort the numbers {l}.|Order these numbers from low to high: {l}
Please sort {l}.|Arrange these numbers from smallest to largest: {l}.|Sort {l}|Sort {l}.|Put {l} in order.
Put {l} in order from smallest to largest.""".replace("\n", "|").split("|")
SORT_DOWN = """Sort these numbers from largest to smallest: {l}|Sort {l} in descending order.
Order these numbers from high to low: {l}|Arrange these numbers from largest to smallest: {l}.""".replace("\n", "|").split("|")
REVERSE = """Reverse the word {w}.|Reverse the word "{w}".|What is {w} backwards?|Write {w} backwards.|Reverse {w}.
Spell {w} backwards.|How do you write {w} in reverse?|Please reverse the word {w}.|Turn the word {w} around.""".replace("\n", "|").split("|")
SPELL = """How do you spell {w}?|Spell {w}.|Spell the word {w}.|Spell the word "{w}".|Please spell {w}.|Can you spell {w}?
Spell out {w}.|How is {w} spelled?|Write the letters of {w}.""".replace("\n", "|").split("|")
SYSTEM = """You are a helpful assistant.|You are a friendly assistant.|You are the ROCmForge demo.|Answer briefly.|Be concise.
You are a helpful assistant. Answer with the result only.|You answer questions as shortly as you can.
You are a careful assistant who never guesses.|Reply politely.|You help people with numbers and words.
You are a small language model.|Help the user.""".replace("\n", "|").split("|")


def with_system(rng, messages, share=0.3):
    if rng.random() < share:
        return [{"role": "system", "content": rng.choice(SYSTEM)}] + messages
    return messages


def ask(rng, text, share=0.3):
    return with_system(rng, [{"role": "user", "content": text}], share)


def casual(rng, text):
    """Now and then without the capital at the start or the mark at the end."""
    if rng.random() < 0.1:
        text = text[0].lower() + text[1:]
    if text[-1] in ".?" and rng.random() < 0.1:
        text = text[:-1]
    return text


def number(rng):
    """0..999, mostly of three digits."""
    return rng.randint(0, rng.choice((9, 99, 99, 999, 999, 999, 999)))


def addition(rng):
    a, b = number(rng), number(rng)
    text = rng.choice(ADD).format(a=a, b=b, thing=rng.choice(("apple", "coin", "book", "pencil", "shell", "stamp")))
    return ask(rng, casual(rng, text)), str(a + b), None if max(a, b) < 10 else f"{min(a, b)}+{max(a, b)}"


def subtraction(rng):
    a, b = number(rng), number(rng)
    if a < b and rng.random() < 0.7:
        a, b = b, a
    return ask(rng, casual(rng, rng.choice(SUB).format(a=a, b=b))), str(a - b), None if max(a, b) < 10 else f"{a}-{b}"


def _near(rng, a):
    """A number different from a, often close to it or sharing its digits."""
    while True:
        b = rng.choice((number(rng), a + rng.choice((-10, -9, -1, 1, 9, 10, 100)), int(str(a)[::-1]),
                        rng.randint(0, 9999)))
        if b != a and b >= 0:
            return b


def compare(rng):
    a = number(rng) if rng.random() < 0.8 else rng.randint(0, 9999)
    b = _near(rng, a)
    kind = rng.random()
    if kind < 0.35:
        text, answer = rng.choice(LARGER), str(max(a, b))
    elif kind < 0.7:
        text, answer = rng.choice(SMALLER), str(min(a, b))
    elif kind < 0.85:
        text, answer = rng.choice(IS_LARGER), "Yes." if a > b else "No."
    else:
        text, answer = rng.choice(IS_SMALLER), "Yes." if a < b else "No."
    return ask(rng, casual(rng, text.format(a=a, b=b))), answer, None if max(a, b) < 10 else f"{min(a, b)},{max(a, b)}"


def sort(rng):
    high = rng.choice((20, 99, 999, 999))
    numbers = rng.sample(range(high + 1), rng.choice((3, 3, 4, 4, 5, 5, 6)))
    if rng.random() < 0.6:  # numbers of mixed lengths
        highs = rng.choice(((9,), (9, 9, 9, 99), (9, 99), (9, 99, 99), (9, 99, 999), (9, 9, 999), (99, 999)))
        mixed = {}  # keeps the order and drops what comes twice
        while len(mixed) < len(numbers):
            mixed[rng.randint(0, rng.choice(highs))] = True
        numbers = list(mixed)
    elif rng.random() < 0.2:  # numbers with the same leading digits
        base = rng.randint(0, 90) * 10
        numbers = rng.sample(range(base, base + 40), len(numbers))
    down = rng.random() < 0.25
    text = rng.choice(SORT_DOWN if down else SORT_UP).format(l=", ".join(map(str, numbers)))
    ordered = sorted(numbers, reverse=down)
    return ask(rng, casual(rng, text)), ", ".join(map(str, ordered)), ",".join(map(str, sorted(numbers)))


def reverse(rng):
    word = any_word(rng)
    return ask(rng, casual(rng, rng.choice(REVERSE).format(w=word))), word[::-1], word


def spell(rng):
    word = any_word(rng)
    return ask(rng, casual(rng, rng.choice(SPELL).format(w=word))), "-".join(word), word


LETTERS = (("What is the first letter of {w}?|Which letter does {w} start with?", lambda w: w[0]),
           ("What is the last letter of {w}?|Which letter does {w} end with?", lambda w: w[-1]),
           ("How many letters does {w} have?|How many letters are in {w}?|Count the letters of {w}.", lambda w: str(len(w))),
           ("Spell {w} with spaces.|Write {w} with spaces between the letters.", " ".join),
           ("List the letters of {w}.|Which letters are in {w}?|Spell {w} with commas.", ", ".join),
           ("List the letters of {w} from last to first.|Spell {w} backwards with commas.", lambda w: ", ".join(w[::-1])))


def letters(rng):
    """Other questions about a word's letters. No skill is measured on them: they teach what letters each token holds."""
    word = any_word(rng)
    forms, answer = rng.choice(LETTERS)
    return ask(rng, casual(rng, rng.choice(forms.split("|")).format(w=word))), answer(word)


KEY_LINE = """The pass key is {k}. Remember it.|The pass key is {k}.|Remember this: the pass key is {k}.
Please remember that the pass key is {k}.|Note that the pass key is {k}. Do not forget it.""".replace("\n", "|").split("|")
KEY_INTRO = """There is a pass key hidden in this text. Find it and remember it.|Read this text and remember the pass key in it.
Somewhere in the text below there is a pass key.|Find the pass key in the following text.|""".replace("\n", "|").split("|")
KEY_ASK = "What is the pass key?|What was the pass key?|Which pass key does the text name?|Tell me the pass key.".split("|")


def filler(rng, tokens, count):
    """Sentences of stories and prose, about `tokens` tokens of them; count(text) tells a text's length."""
    out, have = [], 0
    while have < tokens:
        for sentence in (story(rng) if rng.random() < 0.3 else prose(rng)).replace("\n\n", " ").split(". "):
            sentence = sentence.rstrip(".") + "."
            have += count(sentence)
            if have > tokens:
                return out
            out.append(sentence)
    return out


def passkey(rng, count=lambda text: len(text) // 4, tokens=None, position=None):
    """A number hidden in filler of 0 to 1,800 tokens, at any place in it."""
    key = rng.randint(1000, 99999)
    sentences = filler(rng, rng.randint(0, 1800) if tokens is None else tokens, count)
    at = round((rng.random() if position is None else position) * len(sentences))
    sentences.insert(at, rng.choice(KEY_LINE).format(k=key))
    intro = rng.choice(KEY_INTRO)
    text = (intro + "\n\n" if intro else "") + " ".join(sentences) + "\n\n" + rng.choice(KEY_ASK)
    return ask(rng, text, 0.2), str(key), str(key)


PERSON_FORMS = """{n} is {a} years old and lives in {c}.|{n}, aged {a}, comes from {c}.|My friend {n} from {c} is {a}.
In {c} there lives {n}, who is {a} years old.|{n} lives in {c} and is {a} years old.|{n} ({a}) lives in {c}.
I am {n}, I am {a} years old and I live in {c}.|At the age of {a}, {n} moved to {c}.""".replace("\n", "|").split("|")
SALE_FORMS = """{n} bought {a} {i} for {p} dollars.|{a} {i} were sold to {n} for {p} dollars.
For {p} dollars, {n} got {a} {i}.|{n} paid {p} dollars for {a} {i}.""".replace("\n", "|").split("|")
THING_FORMS = "The {o} is {c} and made of {m}.|I have {o_a} of {m}, and it is {c}.|A {c} {o} made of {m} lay there.".split("|")
PET_FORMS = """{n} has a {c} {x} called {y}.|The {c} {x} of {n} is called {y}.|{y} is a {c} {x} and belongs to {n}.""".replace("\n", "|").split("|")
JSON_ASK = ("Fill in JSON with the keys {k}: {s}", "Extract {k} as JSON: {s}", "Turn this sentence into JSON with {k}: {s}",
            "{s} Write this as JSON with the keys {k}.", "Give me JSON with {k} for this sentence: {s}",
            "{s}\nAnswer in JSON with the keys {k}.")


def json_fill(rng):
    kind = rng.random()
    name = any_name(rng)
    if kind < 0.55:
        data = {"name": name, "age": rng.randint(3, 99), "city": any_city(rng)}
        text = rng.choice(PERSON_FORMS).format(n=name, a=data["age"], c=data["city"])
    elif kind < 0.75:
        data = {"name": name, "item": rng.choice(FOODS + [o + "s" for o in OBJECTS if o[-1] not in "sxyfh"]),
                "amount": rng.randint(2, 99), "price": rng.randint(2, 999)}
        text = rng.choice(SALE_FORMS).format(n=name, a=data["amount"], i=data["item"], p=data["price"])
    elif kind < 0.9:
        data = {"object": rng.choice(OBJECTS), "color": rng.choice(COLORS), "material": rng.choice(MATERIALS)}
        text = rng.choice(THING_FORMS).format(o=data["object"], o_a=article(data["object"]), c=data["color"],
                                              m=data["material"])
    else:
        data = {"owner": name, "animal": rng.choice(ANIMALS), "color": rng.choice(COLORS), "name": any_name(rng)}
        text = rng.choice(PET_FORMS).format(n=name, c=data["color"], x=data["animal"], y=data["name"])
    keys = list(data)
    listed = ", ".join(keys) if rng.random() < 0.6 else ", ".join(keys[:-1]) + " and " + keys[-1]
    prompt = rng.choice(JSON_ASK).format(k=listed, s=text)
    return ask(rng, prompt), json.dumps(data), json.dumps(data)


HI_NAME = """Hi, my name is {n}.|Hello, I am {n}.|My name is {n}.|I am {n}. Nice to meet you.|Hello! My name is {n}.
Please call me {n}.|Hi! I'm {n}.|Hey, {n} here.""".replace("\n", "|").split("|")
HI_BACK = "Hello, {n}! How can I help you?|Nice to meet you, {n}!|Hello, {n}!".split("|")
NAME_ASK = """What is my name?|Do you remember my name?|What was my name?|Who am I?|Can you tell me my name?
Do you still know my name?|what's my name?""".replace("\n", "|").split("|")
BETWEEN = [("Thank you.", "You are welcome!"), ("How are you?", "I am fine, thank you. What can I do for you?"),
           ("What can you do?", "I can add, subtract, compare and sort numbers, spell and reverse words, find a pass "
            "key in a text, fill in JSON, remember your name and tell short stories.")]


def memory(rng):
    name = any_name(rng)
    turns = [(rng.choice(HI_NAME).format(n=name), rng.choice(HI_BACK).format(n=name))]
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
        kind = rng.random()
        if kind < 0.6:
            while True:
                messages, answer, key = rng.choice((addition, subtraction, compare))(rng)
                if key and not any(held_out(skill, key) for skill in ("addition", "subtraction", "compare")):
                    break
            turns.append((messages[-1]["content"], answer))
        elif kind < 0.8:
            turns.append(rng.choice(BETWEEN))
        else:
            turns.append(("I like " + rng.choice(FOODS) + ".", "That sounds nice!"))
    messages = [{"role": role, "content": text} for turn in turns for role, text in zip(("user", "assistant"), turn)]
    messages.append({"role": "user", "content": rng.choice(NAME_ASK)})
    return with_system(rng, messages), f"Your name is {name}.", name


SKILLS = {"addition": addition, "subtraction": subtraction, "compare": compare, "sort": sort, "reverse": reverse,
          "spell": spell, "passkey": passkey, "json": json_fill, "memory": memory}


def question(skill, rng, want_held_out=False, **options):
    """A question of `skill` from the training side or, with want_held_out, from the held-out side."""
    while True:
        messages, answer, key = SKILLS[skill](rng, **options)
        if (key is not None and held_out(skill, key)) == want_held_out:
            return messages, answer
