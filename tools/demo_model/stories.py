"""Short stories and plain prose, assembled from sentence templates with a seeded generator."""
from words import (ADJECTIVES, ANIMALS, CITIES, COLORS, FOODS, MATERIALS, NAMES, OBJECTS, PEOPLE, PLACES, QUALITIES,
                   SEASONS, TIMES, WEATHER, article, held_out)

OPENING = """Once upon a time, {a_adj_hero} lived {near} {a_qual_place}.
Once there was {a_adj_hero} who lived {near} {a_qual_place}.
Long ago, {near} {a_qual_place}, there lived {a_adj_hero}.
{Near} {a_qual_place} there lived {a_adj_hero}.
There was once {a_adj_hero} who was known all over the {place}.
In a {qual} {place2} beyond the {place}, {a_adj_hero} made a home.
One {season} {time}, {a_adj_hero} came to {a_qual_place}.
It was {a_qual} {season} when {a_adj_hero} first saw the {place}.""".split("\n")

NAMED = """{P} name was {name}.
Everyone called {o} {name}.
{P} friends called {o} {name}.
The others in the {place} called {o} {name}, which {s} liked very much.
{S} was called {name}, after {p} grandmother.""".split("\n")

HABIT = """Every {time}, {hero} liked to {activity}.
{Hero} was {adj} and {adj2}, and {s} loved to {activity}.
Most of all, {s} wanted to find {a_qual_object}.
{Hero} owned only {a_qual_object} and {an_object2}, and that was enough.
When the {weather} came, {hero} would sit by the window and {activity}.
In {season}, {s} would {activity} from {time} until {time2}.
Nobody in the {place} could {activity} as well as {hero}.""".split("\n")

PROBLEM = """One {time}, {hero} lost {p} {object}.
One day, {a_qual_object} was missing from the {place2}.
Then a storm of {weather} came, and the {place2} was cut off from the {place}.
But one {time}, {hero} heard a {qual} sound coming from the {place2}.
One {season} day, {s} found {a_qual_object} under {an_object2}.
Then, one {qual} {time}, the {food} in the house ran out.
One {time}, {friend} came to the door and asked for help.
But the {weather} would not stop, and the road to the {place2} was {qual}.
One {time}, {s} saw that the old {object} made of {material} was broken.""".split("\n")

SPEECH = """"{Who_ask}" said {hero}.
"I must go to the {place2}," said {hero}. "{Resolve}"
"Have you seen my {object}?" {hero} asked {friend}.
"{Resolve}" That is what {s} told {r}.
"What a {qual} {object}!" cried {hero}.
"Do not be afraid," said {hero}. "{Resolve}"
"It is only {weather}," {s} whispered. "{Resolve}\"""".split("\n")

WHO_ASK = ["Who could have done this?", "What shall I do now?", "Where can it be?", "Who will help me?",
           "How strange!", "What a day!"]
RESOLVE = ["I will not give up.", "I will be back before dark.", "There must be a way.", "We can do it together.",
           "I will ask for help.", "I have an idea.", "It cannot be far."]

JOURNEY = """So {hero} walked past the {place} and over the {qual} {place2}.
{S} took {a_qual_object} and {food} for the way, and set out at {clock}.
{S} looked behind the {place2}, under the {qual} bridge and beside the {place3}.
All {time} {s} searched, but {s} found only {an_object2}.
The path was {qual} and {qual2}, but {hero} kept going.
On the way {s} met {friend}, who was carrying {a_qual_object2}.
Near the {place3}, {s} stopped to rest and ate some {food}.
The {weather} made the path slow, and {hero} began to feel tired.""".split("\n")

MEETING = """There {s} met {friend}, who was {adj2} and {adj}.
Just then, {friend} came by with {an_object2}.
At the {place3} sat {friend}, mending {a_qual_object2}.
{Friend} was waiting by the {place3}, looking at the {weather}.""".split("\n")

HELP = """"I can help you," said {friend}. "Follow me to the {place3}."
"Why are you so sad?" asked {friend}, and {hero} told the whole story.
{Friend} listened, nodded and said, "Look where the {place3} is {qual}."
"Take this {object2}," said {friend}. "You will need it."
{Friend} shared some {food} with {hero}, and they made a plan.
"If you carry my {object2}, I will show you the way," said {friend}.""".split("\n")

RESULT = """Together they found the {object} behind the {place3}.
With the {object2} they opened the {qual} door, and there was the {object}.
At {clock} the {weather} stopped, and they could see the {object} shining near the {place3}.
They worked until {time2}, and at last everything was as good as new.
{Hero} gave {friend} the {object2}, and {friend} gave {hero} some {food}.
And there, beside {a_qual_object2}, lay what {s} had been looking for.""".split("\n")

ENDING = """From that day on, {hero} and {friend} were the best of friends.
{Hero} went home, ate some {food} and slept until {time}.
And so {hero} learned that even {a_adj_hero} can need a friend.
They all had {food} together, and nobody was {adj3} any more.
After that, {hero} never forgot to be {virtue}.
And if you go to the {place} at {clock}, you may see them there still.
"Thank you," said {hero}, and {s} meant it with all {p} heart.
{Hero} smiled, because a {virtue} heart is worth more than {a_qual_object}.""".split("\n")

ACTIVITIES = """sing to the birds,walk along the shore,count the stars,bake bread,mend old things,tell stories,
watch the clouds,collect shells,climb the hill,swim in the pond,plant flowers,read old books,paint pictures,
play the flute,look for berries,dance in the rain,draw maps,listen to the wind,make soup,fly a kite,
skip stones,gather wood,write letters,feed the ducks""".replace("\n", "").split(",")
VIRTUES = "kind patient honest brave careful gentle thankful helpful polite curious".split()

PROSE = """The {place} stands near the {qual} {place2}, and people come there in {season}.
In {season}, the {weather} brings {food} to the {place}.
Most houses in {city} are built of {material} and have {color} doors.
A {object} made of {material} is {qual} and lasts a long time.
The {person} sells {food} and {food2} at the market in {city}.
{An_animal} eats {food} and sleeps near the {place} at {clock}.
At {clock}, the {person} opens the {place} and lights the lamps.
The road from {city} to {city2} passes a {qual} {place} and a {place2}.
Nobody knows who left the {qual} {object} in the {place}.
To make a {object}, you need {material}, {material2} and a little patience.
When there is {weather}, the {animal} stays in the {place}.
Last {season}, {name} went from {city} to {city2} with a {person}.
The {color} {object} belongs to {name}, who works as a {person}.
A good {person} is {adj} and {adj2}, and never forgets a {object}.
Many {animal_s} live in the {place}, but few of them are {adj}.
The {animal} is {adjective_c} than the {animal2}, but not as {adj}.
{Name} keeps a {qual} {object} in the {place} and a {object2} at home.
On {qual} days the {person} and the {person2} talk about the {weather}.
The oldest {place} in {city} has a {color} roof and {qual} walls.
First wash the {food}, then cook it slowly and serve it with {food2}.
It takes a whole {time} to walk from the {place} to the {place2}.
The {person} mended the {object} with {material} and went home before {time}.
Some people like {food} with {food2}, while others eat it plain.
Behind the {place} there is a {qual} path that leads to a {place2}.
The {weather} was so heavy that the {place} was closed until {time}.
{Name} and {name2} met at the {place} and drank some tea.
Every {season} the {person} of {city} paints the {object} {color}.
If you see {an_animal} at {clock}, keep still and wait.
There are three rooms in the {place}: one is {qual}, one is {qual2} and one is {color}.
{Name} wrote a long letter about the {weather} in {city}.""".split("\n")

CLOCK = "dawn sunrise noon sunset dusk night midnight".split()
COMPARATIVES = "smaller larger faster slower older younger stronger quieter louder kinder".split()
PRONOUNS = (("he", "him", "his", "himself"), ("she", "her", "her", "herself"))


def _cap(text):
    return text[0].upper() + text[1:]


class _Slots(dict):
    """Template slots; a slot that the story does not fix is drawn anew at every use."""

    def __init__(self, rng, fixed):
        super().__init__(fixed)
        self.rng = rng

    def __missing__(self, key):
        if key[0].isupper():
            return _cap(self[key[0].lower() + key[1:]])
        if key.startswith(("a_", "an_")):
            inner = key.split("_", 1)[1]
            return article(" ".join(self[part] for part in inner.split("_")))
        pick = self.rng.choice
        if key == "animal_s":
            return pick(["foxes", "rabbits", "owls", "bears", "frogs", "birds", "goats", "horses", "bees", "swans"])
        base = key.rstrip("23")
        return pick({"qual": QUALITIES, "place": PLACES, "object": OBJECTS, "adj": ADJECTIVES, "food": FOODS,
                     "season": SEASONS, "time": TIMES, "clock": CLOCK, "weather": WEATHER, "material": MATERIALS, "city": CITIES,
                     "color": COLORS, "person": PEOPLE, "animal": ANIMALS, "name": NAMES, "virtue": VIRTUES,
                     "activity": ACTIVITIES, "adjective_c": COMPARATIVES, "who_ask": WHO_ASK, "resolve": RESOLVE,
                     "near": ["near", "beside", "in", "at the edge of", "not far from"]}[base])


def story(rng, hero=None, place=None, friend=None, adjective=None, want_held_out=False):
    """One story of 8 to 14 sentences. Combinations of hero, place and friend are either for training or held out."""
    while True:
        h = hero or rng.choice(ANIMALS + PEOPLE)
        pl = place or rng.choice(PLACES)
        fr = friend or rng.choice(ANIMALS + PEOPLE)
        if fr != h and held_out("story", f"{h}/{pl}/{fr}") == want_held_out:
            break
        if hero and place and friend:
            return None
    s, o, p, r = rng.choice(PRONOUNS)
    name = rng.choice(NAMES) if rng.random() < 0.6 else None
    fixed = {"place": pl, "place2": rng.choice([x for x in PLACES if x != pl]), "place3": rng.choice(PLACES),
             "object": rng.choice(OBJECTS), "object2": rng.choice(OBJECTS), "s": s, "o": o, "p": p, "r": r,
             "hero": name or "the " + h, "friend": "the " + fr, "weather": rng.choice(WEATHER),
             "adj": adjective or rng.choice(ADJECTIVES), "name": name, "food": rng.choice(FOODS)}
    fixed["a_adj_hero"] = article(fixed["adj"] + " " + h)
    slots = _Slots(rng, fixed)
    pick = rng.choice
    parts = [pick(OPENING)] + ([pick(NAMED)] if name else []) + rng.sample(HABIT, rng.choice((1, 2)))
    parts += [pick(PROBLEM)] + rng.sample(SPEECH, rng.choice((0, 1, 1)))
    middle = rng.sample(JOURNEY, rng.choice((1, 2, 3))) + [pick(MEETING)] + rng.sample(HELP, rng.choice((1, 1, 2)))
    ending = rng.sample(RESULT, rng.choice((1, 2))) + rng.sample(ENDING, rng.choice((1, 2)))
    paragraphs = [parts, middle, ending]
    return "\n\n".join(" ".join(t.format_map(slots) for t in part) for part in paragraphs)


def prose(rng, sentences=None):
    """One paragraph of plain prose."""
    slots = _Slots(rng, {})
    return " ".join(t.format_map(slots) for t in rng.sample(PROSE, sentences or rng.randint(3, 8)))


def plain_document(rng, want_held_out=False):
    """Several stories and paragraphs, blank lines between them: the text that perplexity is measured on."""
    pieces = [story(rng, want_held_out=want_held_out) if rng.random() < 0.6 else prose(rng)
              for _ in range(rng.randint(1, 10))]
    return "\n\n".join(pieces)
