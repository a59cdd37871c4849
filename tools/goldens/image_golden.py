#!/usr/bin/env python3
"""Writes tests/golden/images: small images of every format, what Pillow reads of them (decoded.txt), and what it makes of 300
random sizes (resized.txt). Needs numpy and Pillow up to version 12: newer ones resize rows first where that is quicker.

A line of decoded.txt: file, width, height, hash of the RGB bytes. Of resized.txt: seed, width, height, new width, new height,
filter, hash. The pixels of a seed are those of pixels() in tests/images/pixels.h. Hashes are FNV-1a of 64 bits."""
import io
import pathlib
import random

import numpy
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/images"
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
LANCZOS = Image.Resampling.LANCZOS


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def noise(seed, width, height):
    i = numpy.arange(width * height * 3, dtype=numpy.uint64) + numpy.uint64(seed * 1_000_003)
    h = (i * 2654435761) & 0xFFFFFFFF
    h = ((h ^ (h >> 15)) * 2246822519) & 0xFFFFFFFF
    return (h >> 24).astype(numpy.uint8).reshape(height, width, 3)


def picture(width=37, height=23):
    y, x = numpy.mgrid[0:height, 0:width]
    channels = (x * 255 // (width - 1), y * 255 // (height - 1), (x * y * 7 + 40 * ((x // 6 + y // 5) % 2)) % 256)
    return Image.fromarray(numpy.stack(channels, axis=-1).astype(numpy.uint8))


def with_alpha(image):
    width, height = image.size
    image = image.convert("RGBA")
    image.putalpha(Image.fromarray(numpy.tile(numpy.linspace(0, 255, width).astype(numpy.uint8), (height, 1))))
    return image


def save(name, image, **options):
    image.save(FOLDER / name, **options)


def write_images():
    image = picture()
    palette = image.quantize(11)
    save("rgb.png", image)
    save("alpha.png", with_alpha(image))
    save("gray.png", image.convert("L"))
    save("gray_alpha.png", with_alpha(image).convert("LA"))
    save("bits.png", image.convert("1"))
    save("palette.png", palette)
    save("palette_transparent.png", palette, transparency=3)
    save("profile.png", image, icc_profile=bytes(range(200)))
    write_interlaced("interlaced.png", image)
    save("photo.jpg", image, quality=85)
    save("full_chroma.jpg", image, quality=90, subsampling=0)
    save("half_chroma.jpg", image, quality=90, subsampling=1)
    save("progressive.jpg", image, quality=75, progressive=True)
    save("tall.jpg", image.resize((16, 2000)), quality=10, progressive=True)
    save("gray.jpg", image.convert("L"))
    save("cmyk.jpg", image.convert("CMYK"), quality=90)
    save("lossy.webp", image, quality=80)
    save("lossless.webp", image, lossless=True)
    save("alpha.webp", with_alpha(image), lossless=True, exact=True)
    save("plain.gif", palette)
    save("transparent.gif", palette, transparency=3)
    save("interlaced.gif", palette, interlace=1)
    save("animated.gif", palette, save_all=True, append_images=[image.rotate(90).quantize(5)])
    write_partial_gif("partial.gif")
    save("one.png", image.crop((0, 0, 1, 1)))


def write_interlaced(name, image):
    """Adam7 of RGB rows without filters: Pillow writes none."""
    import struct
    import zlib
    width, height = image.size
    pixels = numpy.asarray(image)
    rows = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        for row in pixels[y0::dy, x0::dx]:
            if row.size:
                rows += b"\0" + row.tobytes()

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    (FOLDER / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)) +
                                chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def write_partial_gif(name):
    """A frame that covers a part of its screen, with colours of its own."""
    stream = io.BytesIO()
    picture(20, 12).quantize(9).save(stream, format="GIF")
    data = bytearray(stream.getvalue())
    data[6:10] = bytes((30, 0, 17, 0))
    at = data.index(b"\x2c\0\0\0\0\x14\0\x0c\0")
    data[at + 1:at + 5] = bytes((5, 0, 3, 0))
    (FOLDER / name).write_bytes(data)


def main():
    FOLDER.mkdir(exist_ok=True)
    write_images()
    lines = []
    for file in sorted(FOLDER.iterdir()):
        if file.suffix != ".txt":
            image = Image.open(file).convert("RGB")
            lines.append(f"{file.name} {image.width} {image.height} {fnv(image.tobytes())}\n")
    (FOLDER / "decoded.txt").write_text("".join(lines))

    draw = random.Random(11)
    lines = []
    for seed in range(300):  # of Lanczos those from 200 on
        sides = [draw.choice((draw.randint(1, 12), draw.randint(10, 150))) for _ in range(4)]
        width, height, new_width, new_height = sides if seed % 10 else (*sides[:3], sides[1])
        kind = draw.choice(sorted(FILTERS)) if seed < 200 else "lanczos"
        image = Image.fromarray(noise(seed, width, height)).resize((new_width, new_height), FILTERS.get(kind, LANCZOS))
        lines.append(f"{seed} {width} {height} {new_width} {new_height} {kind} {fnv(image.tobytes())}\n")
    (FOLDER / "resized.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
