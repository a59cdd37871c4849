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
The others near the {place} called {o} {name}, which {s} liked very much.
{S} was called {name}, after {p} grandmother.""".split("\n")

HABIT = """Every {time}, {hero} liked to {activity}.
{Hero} was {adj} and {adj2}, and {s} loved to {activity}.
Most of all, {s} wanted to find {a_qual_thing}.
{Hero} owned only {a_qual_object} and {a_thing}, and that was enough.
When the {weather} came, {hero} would sit by the window and {activity}.
In {season}, {s} would {activity} from {time} until {time2}.
Nobody near the {place} could {activity} as well as {hero}.""".split("\n")

# Each plot: ways to tell what goes wrong, and ways in which it ends well.
PLOTS = [("""One {time}, {hero} lost {p} {object}.
One day, {p} {object} was missing from the {place2}.
One {season} {time}, the wind carried {p} {object} away.
On the way home from the {place2}, {s} dropped {p} {object}.""", """Together they found the {object} behind the {place3}.
And there, beside {a_qual_thing}, lay the lost {object}.
At {clock} the {weather} stopped, and they saw the {object} shining near the {place3}.
"Here it is!" cried {friend}, and gave {hero} the {object}."""),
         ("""One {time}, {s} saw that the old {object} made of {material} was broken.
One day, {p} {object} fell down and broke into {count} pieces.
A storm came in the {time}, and it broke the {object} on the roof.""", """They worked until {clock}, and at last the {object} was as good as new.
With {material} and a little patience, {friend} mended the {object}.
It took {count} days, but then the {object} was even better than before."""),
         ("""One {qual} {season}, the {food} in the house ran out.
Then came {a_qual} {season}, and nobody had enough {food}.
One {time}, {s} opened the cupboard and saw that the {food} was gone.""", """Behind the {place3} they found more {food} than they could carry.
{Friend} filled a basket with {food} and gave it to {hero}.
They traded the {object} for {food}, and nobody went to bed hungry."""),
         ("""But the {weather} would not stop, and the road to the {place2} was closed.
Then {a_qual} storm came, and the {place2} was cut off from the {place}.
One {time}, {hero} lost the way in the {weather}.""", """At {clock} the {weather} stopped, and the road was open again.
With the {object} in front of them, they found the way back to the {place}.
They followed the {qual} path past the {place3} until they saw the {place}."""),
         ("""One {time}, {hero} heard {a_qual} sound coming from the {place2}.
One {season} night, {s} saw a {color} light near the {place2}.
One {time}, {s} found {a_qual} letter that spoke of a secret in the {place2}.""", """Behind the {place3} they found a small door, and there stood {a_qual_thing}.
It was only {a_qual_thing}, and they both began to laugh.
The secret of the {place2} was {a_qual_thing}, and they kept it safe.""")]

SPEECH = """"{Ask}" said {hero}.
"I must go to the {place2}," said {hero}. "{Resolve}"
"What would you do?" {hero} asked the {animal}.
"{Resolve}" That is what {s} told {r}.
"What a {qual} day!" cried {hero}.
"Do not be afraid," said {hero}. "{Resolve}"
"It is only {weather}," {s} whispered. "{Resolve}\"""".split("\n")

ASK = ["Who could have done this?", "What shall I do now?", "Where can it be?", "Who will help me?",
           "How strange!", "What a day!"]
RESOLVE = ["I will not give up.", "I will be back before dark.", "There must be a way.", "We can do it together.",
           "I will ask for help.", "I have an idea.", "It cannot be far."]

JOURNEY = """So {hero} walked past the {place} and over the {qual} bridge.
{S} packed {a_qual_thing} and some {food2} for the way, and set out at {clock}.
{S} looked behind the {place2}, under the {qual} bridge and beside the {place3}.
All {time} {s} walked, but {s} met only {an_animal}.
The path was {qual} and {qual2}, but {hero} kept going.
Near the {place3}, {s} stopped to rest and ate some {food2}.
The {weather} made the path slow, and {hero} began to feel tired.
First {s} asked the {person}, but the {person} knew nothing.""".split("\n")

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

ENDING = """From that day on, {hero} and {friend} were the best of friends.
{Hero} went home, ate some {food2} and slept until {clock}.
And so {hero} learned that even {a_adj_hero} can need a friend.
They all had {food2} together, and nobody was sad any more.
After that, {hero} never forgot to be {virtue}.
And if you go to the {place} at {clock}, you may see them there still.
"Thank you," said {hero}, and {s} meant it with all {p} heart.
{Hero} smiled, because a {virtue} heart is worth more than {a_qual_thing}.""".split("\n")

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
Many {animals} live in the {place}, but few of them are {adj}.
The {animal} is {compared} than the {animal2}, but not as {adj}.
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
SHE = {name for name in NAMES if name.endswith("a")} | set("""Grace Iris Kate Wendy Zoe Hannah Alice Karin Ruth Ines
    Esther Helen Beth Irene Heidi Rachel Agnes Camille Harriet Opal Vivian Sophie Mary Susan Emily Lily Lucy Yuki
    Naomi Stella Valerie Imani Priya""".split())


def _cap(text):
    return text[0].upper() + text[1:]


CHOICES = {"qual": QUALITIES, "place": PLACES, "object": OBJECTS, "thing": OBJECTS, "adj": ADJECTIVES, "food": FOODS,
           "season": SEASONS, "time": TIMES, "clock": CLOCK, "weather": WEATHER, "material": MATERIALS, "city": CITIES,
           "color": COLORS, "person": PEOPLE, "animal": ANIMALS, "name": NAMES, "virtue": VIRTUES,
           "activity": ACTIVITIES, "compared": COMPARATIVES, "resolve": RESOLVE, "ask": ASK,
           "count": ["two", "three", "four", "five", "six", "seven"],
           "animals": ["foxes", "rabbits", "owls", "bears", "frogs", "birds", "goats", "horses", "bees", "swans"],
           "near": ["near", "beside", "behind", "at the edge of", "not far from"]}


class _Slots(dict):
    """Template slots; a slot that the story does not fix is drawn anew at every use, words not yet used first."""

    def __init__(self, rng, fixed):
        super().__init__(fixed)
        self.rng, self.seen = rng, {value for value in fixed.values() if value}

    def __missing__(self, key):
        if key[0].isupper():
            return _cap(self[key[0].lower() + key[1:]])
        if key.startswith(("a_", "an_")):
            return article(" ".join(self[part] for part in key.split("_")[1:]))
        choices = CHOICES[key.rstrip("23")]
        fresh = [c for c in self.rng.sample(choices, min(4, len(choices))) if c not in self.seen]
        self.seen.add(fresh[0] if fresh else "")
        return fresh[0] if fresh else self.rng.choice(choices)


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
    name = rng.choice(NAMES) if rng.random() < 0.6 else None
    s, o, p, r = PRONOUNS[name in SHE] if name else rng.choice(PRONOUNS)
    fixed = {"place": pl, "place2": rng.choice([x for x in PLACES if x != pl]), "place3": rng.choice(PLACES),
             "object": rng.choice(OBJECTS), "object2": rng.choice(OBJECTS), "s": s, "o": o, "p": p, "r": r,
             "hero": name or "the " + h, "friend": "the " + fr, "weather": rng.choice(WEATHER),
             "adj": adjective or rng.choice(ADJECTIVES), "name": name, "food": rng.choice(FOODS), "person": rng.choice(PEOPLE)}
    fixed["a_adj_hero"] = article(fixed["adj"] + " " + h)
    slots = _Slots(rng, fixed)
    pick = rng.choice
    parts = [pick(OPENING)] + ([pick(NAMED)] if name else []) + rng.sample(HABIT, rng.choice((1, 2)))
    problems, results = (text.split("\n") for text in pick(PLOTS))
    parts += [pick(problems)] + rng.sample(SPEECH, rng.choice((0, 1, 1)))
    middle = rng.sample(JOURNEY, rng.choice((1, 2, 3))) + [pick(MEETING)] + rng.sample(HELP, rng.choice((1, 1, 2)))
    ending = [pick(results)] + rng.sample(ENDING, rng.choice((1, 2)))
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
