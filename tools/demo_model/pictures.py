"""Pictures of one digit or shape in one colour, and the questions about them."""
import colorsys
import math
import zlib

from PIL import Image, ImageDraw, ImageFont

DIGITS = "0123456789"
SHAPES = "circle square triangle star cross heart".split()
THINGS = [*DIGITS, *SHAPES]
# Hue in degrees; black and white have none.
HUES = {"red": 0, "orange": 28, "yellow": 54, "green": 125, "blue": 222, "purple": 285}
COLORS = [*HUES, "black", "white"]
FONTS = """DejaVuSans DejaVuSans-Bold DejaVuSans-Oblique DejaVuSansMono DejaVuSansMono-Bold DejaVuSansCondensed
DejaVuSansCondensed-Bold DejaVuSerif DejaVuSerif-Bold DejaVuSerif-Italic DejaVuSerifCondensed""".split()
STYLES = [*FONTS, "pen"]  # "pen": strokes of a hand
WHICH_DIGIT = """Which digit is this?|Which digit?|What digit is this?|Which digit do you see?|Which number is this?
What number is this?|Which digit is in the picture?|What digit is in the image?""".replace("\n", "|").split("|")
WHICH_SHAPE = """Which shape is this?|Which shape?|What shape is this?|Which shape do you see?
Which shape is in the picture?|What shape is in the image?""".replace("\n", "|").split("|")
WHAT = """What is this?|What do you see?|What is in the picture?|What is in the image?|What does the picture show?
What is in this picture?""".replace("\n", "|").split("|")
# Polylines of a hand that writes digits, in a box of 1 x 1 whose y grows downwards. Arcs: (x, y, rx, ry, from, to in degrees).
ARC = "arc"
STROKES = {
    "0": [[(ARC, .5, .5, .32, .48, -90, 270)]],
    "1": [[(.32, .22), (.54, .02), (.54, .98)]],
    "2": [[(ARC, .5, .28, .3, .26, -170, 40), (.2, .97), (.82, .97)]],
    "3": [[(ARC, .48, .26, .28, .24, -160, 90), (ARC, .48, .73, .32, .25, -90, 160)]],
    "4": [[(.62, .98), (.62, .02), (.15, .68), (.88, .68)]],
    "5": [[(.78, .03), (.3, .03), (.25, .45), (ARC, .48, .68, .3, .29, -110, 150)]],
    "6": [[(.68, .02), (.3, .5), (ARC, .5, .7, .28, .28, -180, 180)]],
    "7": [[(.18, .03), (.82, .03), (.42, .98)]],
    "8": [[(ARC, .5, .26, .24, .24, 90, 450)], [(ARC, .5, .74, .3, .25, -90, 270)]],
    "9": [[(ARC, .5, .3, .28, .28, 0, 360), (.76, .4), (.62, .98)]],
}


def held_out(thing, color, style):
    """Whether a picture is for questions alone: a fifth of all combinations, which training never sees."""
    return zlib.crc32(f"{thing}, {color}, {style}".encode()) % 5 == 0


def line_of(parts, rng):
    """The points of a stroke, a little off their places."""
    points = []
    for part in parts:
        if part[0] != ARC:
            points.append(part)
            continue
        _, x, y, rx, ry, begin, end = part
        angles = [math.radians(begin + (end - begin) * i / 16) for i in range(17)]
        points += [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]
    dx, dy = rng.uniform(-.05, .05), rng.uniform(-.05, .05)
    return [(x + dx + rng.gauss(0, .008), y + dy + rng.gauss(0, .008)) for x, y in points]


def draw_strokes(digit, size, rng):
    """A mask of `size` with the digit in strokes."""
    mask = Image.new("L", size)
    draw = ImageDraw.Draw(mask)
    width = max(2, round(min(size) * rng.uniform(.07, .17)))
    box = [(width, side - width) for side in size]
    for parts in STROKES[digit]:
        points = [tuple(low + v * (high - low) for v, (low, high) in zip(p, box)) for p in line_of(parts, rng)]
        draw.line(points, fill=255, width=width, joint="curve")
        for x, y in (points[0], points[-1]):
            draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)
    return mask


def draw_letter(digit, size, font):
    """A mask with the digit as the font has it, stretched to `size`."""
    letter = Image.new("L", (300, 300))
    ImageDraw.Draw(letter).text((60, 20), digit, fill=255, font=font)
    return letter.crop(letter.getbbox()).resize(size, Image.BILINEAR)


def corners_of(shape, rng):
    if shape == "triangle":
        return [(rng.uniform(.3, .7), 0), (1, 1), (0, 1)]
    if shape == "star":
        inner, turn = rng.uniform(.38, .5), -math.pi / 2
        radii = [.5 * (inner if i % 2 else 1) for i in range(10)]
        return [(.5 + r * math.cos(turn + i * math.pi / 5), .5 + r * math.sin(turn + i * math.pi / 5))
                for i, r in enumerate(radii)]
    if shape == "heart":
        curve = [(16 * math.sin(t) ** 3,
                  13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t))
                 for t in (2 * math.pi * i / 48 for i in range(48))]
        return [((x + 16) / 32, (12 - y) / 29) for x, y in curve]
    arm = rng.uniform(.1, .18)
    low, high = .5 - arm, .5 + arm
    return [(low, 0), (high, 0), (high, low), (1, low), (1, high), (high, high), (high, 1), (low, 1), (low, high),
            (0, high), (0, low), (low, low)]


def draw_shape(shape, size, rng):
    mask = Image.new("L", size)
    draw = ImageDraw.Draw(mask)
    box = (0, 0, size[0] - 1, size[1] - 1)
    if shape == "circle":
        draw.ellipse(box, fill=255)
    elif shape == "square":
        draw.rectangle(box, fill=255)
    else:
        draw.polygon([(x * box[2], y * box[3]) for x, y in corners_of(shape, rng)], fill=255)
    return mask


def color_value(color, rng):
    if color == "black":
        return (rng.randint(0, 35),) * 3
    if color == "white":
        return (rng.randint(235, 255),) * 3
    spread = 5 if color in ("orange", "yellow") else 10
    hue = (HUES[color] + rng.uniform(-spread, spread)) / 360
    bright = rng.uniform(.85, 1) if color in ("orange", "yellow", "red") else rng.uniform(.55, .95)
    return tuple(round(255 * v) for v in colorsys.hsv_to_rgb(hue % 1, rng.uniform(.8, 1), bright))


def background_value(color, rng):
    """Of a background on which the colour is seen: light or dark, of little colour of its own."""
    share = {"white": 1, "yellow": .8, "orange": .4, "red": .4}.get(color, 0)
    dark = rng.random() < share
    value = rng.randint(0, 60) if dark else rng.randint(215, 255)
    return tuple(min(255, max(0, value + rng.randint(-10, 10))) for _ in range(3))


class Painter:
    """Draws with the fonts of a folder."""

    def __init__(self, folder):
        self.fonts = {name: ImageFont.truetype(f"{folder}/{name}.ttf", 180) for name in FONTS}

    def mask(self, thing, style, size, rng):
        """Drawn at twice the size, which smooths the edges."""
        large = tuple(2 * side for side in size)
        if thing in SHAPES:
            mask = draw_shape(thing, large, rng)
        elif style == "pen":
            mask = draw_strokes(thing, large, rng)
        else:
            mask = draw_letter(thing, large, self.fonts[style])
        turn = rng.uniform(-10, 10)
        mask = mask.rotate(turn, Image.BILINEAR, expand=True)
        return mask.resize(tuple(max(1, side // 2) for side in mask.size), Image.BOX)

    def picture(self, thing, color, style, rng):
        """An RGB image whose longer side has 48 to 160 pixels."""
        long = rng.randint(48, 160)
        short = round(long * rng.uniform(.75, 1))
        width, height = (long, short) if rng.random() < .5 else (short, long)
        image = Image.new("RGB", (width, height), background_value(color, rng))
        tall = min(width, height) * rng.uniform(.55, .85)
        wide = tall * (rng.uniform(.5, .75) if thing in DIGITS else rng.uniform(.9, 1.1))
        mask = self.mask(thing, style, (max(8, round(wide)), max(8, round(tall))), rng)
        free = [max(0, side - of) for side, of in zip(image.size, mask.size)]
        image.paste(color_value(color, rng), tuple(round(space * rng.uniform(.35, .65)) for space in free), mask)
        return image


def subject(rng, want_held_out):
    """(thing, colour, style): as many digits as shapes."""
    while True:
        thing = rng.choice(DIGITS if rng.random() < .6 else SHAPES)
        found = thing, rng.choice(COLORS), rng.choice(STYLES) if thing in DIGITS else "shape"
        if held_out(*found) == want_held_out:
            return found


def questions(thing):
    """The ways to ask about it. The one right answer is its name."""
    return (WHICH_DIGIT if thing in DIGITS else WHICH_SHAPE) + WHAT
