"""Word lists and pseudo-words: the vocabulary every generator draws from."""
import zlib

ANIMALS = """fox rabbit bear owl mouse badger hedgehog squirrel deer wolf otter beaver frog toad duck goose
swan heron crow raven sparrow robin finch eagle hawk falcon pigeon dove hen rooster turkey peacock penguin seal
whale dolphin shark salmon trout crab lobster turtle tortoise lizard snake dragon unicorn horse pony donkey mule
cow calf bull goat sheep lamb pig piglet dog puppy cat kitten lion tiger leopard panther cheetah elephant giraffe
zebra camel monkey gorilla panda koala kangaroo wombat bat mole rat hamster ferret weasel moose elk bison llama
parrot canary snail beetle ant bee wasp spider moth butterfly cricket dragonfly worm""".split()

PEOPLE = """baker farmer miller weaver tailor potter smith carpenter fisherman sailor captain shepherd gardener
painter singer dancer teacher student doctor nurse merchant traveler hunter wizard witch king queen prince
princess knight boy girl grandmother grandfather librarian cook clockmaker postman pilot miner mason soldier
scholar poet inventor beekeeper ferryman""".split()

NAMES = """Anna Ben Clara David Emma Felix Grace Henry Iris Jack Kate Leo Maria Noah Olivia Peter Quinn Rosa Sam
Tara Uma Victor Wendy Xavier Yara Zoe Adam Bella Carl Diana Eric Fiona George Hannah Ivan Julia Kevin Laura Mark
Nina Oscar Paula Robert Sara Thomas Ursula Vera Walter Alice Boris Cora Daniel Elena Frank Greta Hugo Ines Jonas
Karin Lukas Mila Nora Otto Petra Ruth Simon Tina Viktor Wanda Amir Bianca Chen Dara Emil Farid Gita Hana Igor
Jana Kofi Lena Marco Naomi Omar Pia Ravi Sofia Tariq Yuki Zara Aisha Bruno Celia Dmitri Esther Fatima Gabriel
Helen Isaac Jasper Katya Liam Mona Nadia Oliver Priya Ramon Stella Theo Vivian Wyatt Arthur Beth Colin Dora Edgar
Flora Gordon Heidi Irene James Klara Louis Martha Nathan Opal Philip Rachel Silas Tessa Victoria William Agnes
Albert Amelia Bernard Camille Cyrus Elias Freya Gilbert Harriet Imani Joel Kira Lydia Miles Nico Olga Pablo Rita
Samuel Sophie Tomas Valerie Willa Yusuf Zelda Mary John Paul Susan Linda Michael Emily Chris Alex Max Lucy Mia Ella
Ethan Lily""".split()

CITIES = """Lisbon Paris Berlin Rome Madrid Vienna Prague Oslo Dublin London Athens Cairo Tokyo Delhi Lima Quito
Boston Denver Chicago Dallas Austin Seattle Toronto Montreal Havana Nairobi Accra Lagos Tunis Sydney Perth Hanoi
Bangkok Manila Seoul Osaka Kyoto Beijing Shanghai Mumbai Dakar Geneva Zurich Munich Hamburg Naples Milan Turin
Porto Seville Valencia Krakow Warsaw Riga Tallinn Helsinki Stockholm Bergen Copenhagen Brussels Antwerp Ghent
Utrecht Leiden York Bath Oxford Cambridge Glasgow Cardiff Belfast Bristol Leeds""".split()

PLACES = """forest meadow valley river lake harbor village castle mountain island desert garden orchard field cave
beach marsh bridge tower mill market town city farm barn cottage hill canyon swamp library school kitchen
workshop lighthouse station ship palace temple museum bakery inn courtyard cellar attic vineyard glade""".split()

OBJECTS = """lantern key map compass basket kettle blanket ladder rope bell drum flute violin mirror clock ring
crown coin stone shell feather acorn apple pear plum cherry berry melon pumpkin carrot potato onion loaf cake pie
cheese honey jar bottle cup bowl plate spoon knife hammer nail saw needle thread button coat hat scarf glove boot
shoe umbrella candle book letter pencil brush box chest bag wagon cart wheel boat kite ball doll puppet statue
painting telescope hook anchor net sail flag seed flower rose lily tulip daisy leaf branch log nest egg""".split()

ADJECTIVES = """small tiny little big large young old clever wise brave shy kind gentle proud lazy busy curious
hungry sleepy lonely cheerful quiet noisy patient careful careless honest stubborn friendly nervous playful
grumpy polite silly bold calm quick slow strong weak thin round tall short white black brown gray red golden
silver green blue purple yellow orange pink spotted striped""".split()

QUALITIES = """bright dark warm cold deep narrow wide steep dusty muddy sunny shady windy foggy rainy snowy frozen
silent hidden ancient crooked broken shiny rusty wooden heavy light empty full soft hard smooth rough sharp sweet
bitter fresh dry wet clean dirty strange lovely plain simple famous secret precious ordinary huge""".split()

COLORS = "red blue green yellow orange purple pink brown black white gray silver golden violet crimson teal".split()
FOODS = """bread soup cheese apples pears cake pie honey porridge beans rice noodles carrots potatoes plums berries
pancakes cookies jam butter milk tea cocoa juice salad fish eggs onions mushrooms nuts""".split()
WEATHER = "rain snow wind fog thunder sunshine hail frost drizzle mist".split()
SEASONS = "spring summer autumn winter".split()
TIMES = "morning noon afternoon evening night dawn dusk midnight".split()
MATERIALS = "wood stone iron copper clay glass wool cotton silk paper leather straw tin brass marble sand".split()

EXTRA = """about above across action after again air almost alone along also always among amount anger answer
arrow artist aunt autumn baby back balance band bank base basin bean beauty bed before begin behind belief
belt bench bend better between bird birth bite blade blood blow board body bone bottom brain bread breath
brick brother bucket bubble build burn butter cable camera camp canal card care carpet carry cattle cause
ceiling center chain chair chalk chance change channel charm chart cheek chief child choice church circle
claim class clear cliff climb cloth cloud coal coast collar color comet comfort common computer cork corn corner
cough count country course cousin cover crack cradle craft crane cream creek crime crop cross crowd crust cry
current curtain curve cushion damage danger daughter debt decision degree desk detail dinner dish distance ditch
door doubt dozen dream dress drink driver drop dust early earth east edge effect elbow empire engine error event
exit eye face fact fairy fall family father fear feast fence fever fiber figure finger fire flame flash flavor
fleece flight flood floor flour flow fold food foot force fork form forward frame freedom friend fruit fuel
future gallon game garage garlic gate ghost giant gift ginger globe glory glue grain grape grass gravel ground
group growth guard guess guest guide guitar habit hair half hall hand handle harvest health heart heat heaven
height hello helmet help hinge history holiday hollow home hope horizon horn hospital hour house humor hunger ice
idea ink insect ivory jacket jail jewel joke journey judge jump jungle justice kernel kidney kindness kingdom
kiss knee knot language laugh law layer lead learn lemon lesson level lift limit line linen liquid list lock
lumber lunch lung machine magnet maple marble march mask match meal measure meat medal member memory metal middle
milk mind minute model moment money month moon mother motion mouth muscle music nation nature neck nephew nerve
noise north nose note number oak oasis object ocean offer office olive opera orbit order organ oven owner package
page pain pair parade parcel parent park part party past paste path pattern peace pearl pepper person petal
phrase piano picture pillow pine pipe planet plant plastic pocket point poison polish pond pool porch position
powder power prairie present price print prison prize process profit promise proof public pump punch puzzle
quality quarter question quilt rail ranch range rate ray reason record region relief request respect reward
rhythm ribbon riddle road rock roof room root route rubber rule sack saddle safety salt sample scale scene
science sea season seat second sense servant shade shadow shape share sheet shelf shield shirt shock shore
shoulder shower side sign silence sister size skill skin sky sleep sleeve slope smell smile smoke soap society
sock soil song sound south space spark spice spirit sponge spot square stable stage stair stamp star state steam
steel stem step stick stitch stomach store storm story street stream string structure sugar sun supper surface
surprise swim system table tail talk task taste tax temper tent test theater theory thing throat thumb ticket
tide timber time title toast toe tongue tooth top touch trade train treasure tree trick trouble trumpet trunk
truth tunnel turn twist uncle unit value vapor velvet vessel view vinegar visit voice voyage waist wall war wash
waste watch water wave wax way wedding week weight well west wheat whistle widow window wing wire wisdom wish
woman wonder word work world wound wrist writing yard year yeast zero zone
add afraid ahead arrive asleep aunt banana bathroom beautiful began believe best bicycle bigger birthday blossom
bought breakfast brought build busy calendar called came carried catch caught chocolate clever climbed closed
coffee cold compare cried crossroads dangerous dark dear delicious different difficult dinosaur discover drawer
easy eight elbow engineer enough enormous evening every example excited explain fifteen fifty finally first five
follow forest forgot forty found four friends funny galaxy garden geography giggle gone grammar hundred hurry
important interesting keep keyboard knew knock language later laugh learned leave letters listen listened lived
long lost loved machine many mathematics maybe met mended missing mistake moment month mystery nature never next
nine ninety nothing notice number often once only open opened orchestra other packed people perfect picture
pineapple pleasant police potato pretty program pumpkin quickly quite rainbow reached really remember reverse
rhinoceros said sandwich saw saxophone school sentence seven seventeen shining shoulder simple sixteen sixty
slowly someone sometimes somewhere sorry speak spell splendid stood stopped strawberry strength suddenly sugar
sunflower telephone ten terrible thank their themselves there thirteen thirty thought thousand three through
together tomorrow took towards travel twelve twenty twice under until usually vegetable very visited walked
wanted warning wednesday went whisper window wonderful worked world worth written xylophone yesterday young
zebra""".split()

WORDS = sorted({w.lower() for w in ANIMALS + PEOPLE + PLACES + OBJECTS + ADJECTIVES + QUALITIES + COLORS + FOODS
                + WEATHER + SEASONS + TIMES + MATERIALS + EXTRA})

_ONSETS = """b c d f g h j k l m n p r s t v w z b d f g h k l m n p r s t br ch cl cr dr fl fr gl gr kn ph pl pr qu
sc scr sh sk sl sm sn sp st str sw th tr tw wh x y""".split() + [""] * 6
_VOWELS = "a e i o u a e i o u a e i o ai au ea ee ei ie io oa oo ou ue y".split()
_CODAS = [""] * 9 + "b ck d f g gh k l ld ll lm m mp n n nd ng nk nt p r r rd rk rn rt s sh ss st t th tt x z".split()
_LETTERS = "aaabbcccdddeeeeefffgghhhiiijkkllllmmmnnnnooooppqrrrrsssstttttuuuvwwxyyz"
_ENDINGS = "s ed ing er ly y ness less ful able est ish ment".split()


def pseudo_word(rng, low=3, high=9):
    """A made-up word of low..high letters: mostly syllables, at times just letters."""
    while True:
        if rng.random() < 0.15:
            return "".join(rng.choice(_LETTERS) for _ in range(rng.randint(low, high)))
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
                       for _ in range(rng.choice((1, 2, 2, 3))))
        if low <= len(word) <= high:
            return word


def any_word(rng):
    """A listed word, one with an ending, two joined, a name in lower case, or a made-up word."""
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(WORDS)
    if kind < 0.6:
        return rng.choice(WORDS) + rng.choice(_ENDINGS)
    if kind < 0.65:
        return rng.choice(WORDS) + rng.choice([w for w in WORDS[::7] if len(w) < 6])
    if kind < 0.7:
        return rng.choice(NAMES + CITIES).lower()
    return pseudo_word(rng, 3, 11)


def any_name(rng):
    """A common name, a made-up one or, now and then, an English word used as a name."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(NAMES)
    name = (pseudo_word(rng, 2, 9) if kind < 0.9 else rng.choice(WORDS)).capitalize()
    return name if rng.random() < 0.96 else name + " " + pseudo_word(rng, 3, 9).capitalize()


def any_city(rng):
    return rng.choice(CITIES) if rng.random() < 0.5 else pseudo_word(rng, 4, 9).capitalize()


def held_out(skill, key, one_in=40):
    """True for the fixed share of keys that only the acceptance questions may use."""
    return zlib.crc32(f"{skill}|{key}".encode()) % one_in == 0


def article(noun):
    return ("an " if noun[0] in "aeiou" and not noun.startswith(("uni", "one")) else "a ") + noun
