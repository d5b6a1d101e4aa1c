"""Writes images of every kind, and their pixels as Pillow decodes them.

    write_images.py OUT

writes OUT/NAME.EXT, and beside each that Pillow decodes NAME.EXT.pixels: `WIDTH HEIGHT CHANNELS` in a line, then the pixels,
8 bits a channel. Names of images with lossy decoding begin with `close`, all others with `exact`.
JPEGs that Pillow cannot write come from `cjpeg`, TIFFs from `tiffcp`, if these programs are installed.
"""

import io
import itertools
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image, ImageCms

OUT = pathlib.Path(sys.argv[1])
SIZES = [(45, 37), (16, 16), (17, 8), (1, 1), (64, 3)]


def picture(width, height, channels=3, bits=8):
    """A slope, a disc and some noise: [height, width, channels] of `bits`."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 255 // max(1, width - 1), y * 255 // max(1, height - 1), (x * y) % 256, 255 - (x + y) % 200]
    array = np.stack(planes[:channels], axis=-1).astype(np.uint32)
    disc = (x - width // 2) ** 2 + (y - height // 2) ** 2 < (min(width, height) // 3) ** 2
    array[disc] = [40, 200, 90, 128][:channels]
    array = array * 257 + (x * 7 + y * 13)[..., None] % 200
    return (np.minimum(array, 65535) >> (16 - bits)).astype(np.uint16)


def image(width, height, mode="RGB"):
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    array = picture(width, height, 4 if mode in ("RGBA", "CMYK") else 3).astype(np.uint8)
    array = {1: array[..., 1], 2: array[..., 1:3]}.get(channels, array[..., :channels])
    return Image.fromarray(np.ascontiguousarray(array), mode)


def put(name, data):
    OUT.joinpath(name).write_bytes(data)


def saved(picture, kind, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def jpegs():
    for width, height in SIZES:
        size = f"{width}x{height}"
        rgb = image(width, height)
        for sampling, name in [(0, "444"), (1, "422"), (2, "420")]:
            for progressive, restart in itertools.product([False, True], [0, 3]):
                data = saved(rgb, "JPEG", quality=90, subsampling=sampling, progressive=progressive, restart_marker_blocks=restart)
                put(f"close-{size}-{name}{'-progressive' * progressive}{'-restart' * bool(restart)}.jpg", data)
        put(f"close-{size}-gray.jpg", saved(image(width, height, "L"), "JPEG", quality=90))
        put(f"close-{size}-gray-progressive.jpg", saved(image(width, height, "L"), "JPEG", quality=90, progressive=True))
        put(f"close-{size}-cmyk.jpg", saved(image(width, height, "CMYK"), "JPEG", quality=95))
        put(f"close-{size}-cmyk-progressive.jpg", saved(image(width, height, "CMYK"), "JPEG", quality=95, progressive=True))
        put(f"close-{size}-rgb.jpg", saved(rgb, "JPEG", quality=90, keep_rgb=True))
    if not shutil.which("cjpeg"):
        return
    script, source = OUT / "scans.txt", OUT / "source.ppm"
    samplings = ["1x1", "2x1", "1x2", "2x2", "4x1", "4x2", "4x4", "1x4", "2x4", "3x1", "3x3", "1x1,2x2,2x2", "2x1,1x2,1x1", "2x2,2x1,1x2", "2x2,1x1,2x2", "1x2,1x1,1x2"]
    for (width, height), sampling in itertools.product(SIZES[:3], samplings):
        source.write_bytes(saved(image(width, height), "PPM"))
        ways = {
            "baseline": [],
            "progressive": ["-progressive"],
            "restart": ["-restart", "2B"],
            "progressive-restart": ["-progressive", "-restart", "2B"],
            "arithmetic": ["-arithmetic"],
            "rgb": ["-rgb"],
            "scans": "0;1;2;",
            "scans-2": "0;1 2;",
            "scans-other": "0 1;2;",
            "scans-turned": "2;1;0;",
            "scans-restart": "0;1;2;",
        }
        for way, options in ways.items():
            if isinstance(options, str):
                script.write_text(options)
                options = ["-scans", str(script)] + (["-restart", "2B"] if "restart" in way else [])
            command = ["cjpeg", "-quality", "90", "-sample", sampling, *options, str(source)]
            made = subprocess.run(command, capture_output=True)
            if made.returncode == 0 and made.stdout:
                put(f"close-{width}x{height}-{sampling.replace(',', '_')}-{way}.jpg", made.stdout)
    script.unlink()
    source.unlink()


def chunk(name, data, checksum=None):
    checksum = zlib.crc32(name + data) if checksum is None else checksum
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def packed(array, bits):
    """Rows of [height, width, channels] with `bits` a sample, each row padded to whole bytes."""
    rows = array.reshape(array.shape[0], -1)
    if bits == 16:
        return [row.astype(">u2").tobytes() for row in rows]
    if bits == 8:
        return [row.astype(np.uint8).tobytes() for row in rows]
    levels = ((rows[..., None] >> np.arange(bits - 1, -1, -1)) & 1).astype(np.uint8)
    return [np.packbits(row.reshape(-1)).tobytes() for row in levels]


def png(width, height, colour, bits, interlace, chunks=b"", between=b""):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    array = picture(width, height, channels, bits)
    passes = [(0, 0, 1, 1)]
    if interlace:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = []
    for x, y, dx, dy in passes:
        part = array[y::dy, x::dx]
        if part.size:
            rows += [b"\0" + row for row in packed(part, bits)]
    palette = b""
    if colour == 3:
        palette = chunk(b"PLTE", bytes(n * k % 256 for n in range(1 << bits) for k in (37, 91, 151)))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlace)))
    data = chunk(b"IDAT", zlib.compress(b"".join(rows)))
    return b"\x89PNG\r\n\x1a\n" + head + chunks + palette + between + data + chunk(b"IEND", b"")


def pngs():
    depths = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
    for colour, bits in [(colour, bits) for colour, all_bits in depths.items() for bits in all_bits]:
        for (width, height), interlace in itertools.product(SIZES, [False, True]):
            put(f"exact-{width}x{height}-{colour}-{bits}{'-interlaced' * interlace}.png", png(width, height, colour, bits, interlace))
        if colour == 3:
            put(f"exact-transparent-3-{bits}.png", png(45, 37, 3, bits, False, between=chunk(b"tRNS", b"\0\x80")))
    put("exact-filters.png", saved(image(45, 37), "PNG", optimize=True))
    icc, text = b"name\0\0" + zlib.compress(b"x" * 200), b"name\0\0" + zlib.compress(b"text")
    extra = {b"iCCP": icc, b"zTXt": text, b"iTXt": b"name\0\0\0\0\0text", b"sPLT": b"name\0\x08abcdef", b"tEXt": b"name\0text", b"gAMA": b"\0\0\xb1\x8f"}
    for name, data in extra.items():
        put(f"exact-with-{name.decode()}.png", png(20, 14, 2, 8, False, chunk(name, data)))
        put(f"exact-checksum-{name.decode()}.png", png(20, 14, 2, 8, False, chunk(name, data, 7)))


def gifs():
    rgb = image(45, 37)
    for colours in [2, 4, 16, 64, 256]:
        put(f"exact-{colours}.gif", saved(rgb.quantize(colours), "GIF"))
        put(f"exact-{colours}-straight.gif", saved(rgb.quantize(colours), "GIF", interlace=0))
    put("exact-transparent.gif", saved(rgb.quantize(16), "GIF", transparency=3))
    put("exact-frames.gif", saved(rgb.quantize(16), "GIF", save_all=True, append_images=[rgb.rotate(90).quantize(16)]))
    part = saved(rgb.quantize(16), "GIF")
    # On a larger canvas, at x 5 and y 3.
    at = part.index(b",", 13 + 3 * 16)
    moved = part[:6] + struct.pack("<HH", 60, 50) + part[10:at + 1] + struct.pack("<HH", 5, 3) + part[at + 5 :]
    put("exact-part.gif", moved)
    put("exact-87a.gif", part.replace(b"GIF89a", b"GIF87a"))


def bmp(width, height, bits, header=40, compression=0, masks=b"", gap=0, top=False, used=0, offset=None, rows=None, alpha=None):
    array = picture(width, height, 4 if bits in (16, 24, 32) else 1, 8 if bits > 8 else bits)
    if rows is None:
        lines = []
        for line in array if top else array[::-1]:
            if bits == 16:
                red, green, blue = line[:, 0].astype(int), line[:, 1].astype(int), line[:, 2].astype(int)
                six = compression == 3 and b"\xe0\x07" in masks
                word = (red >> 3) << (11 if six else 10) | (green >> (2 if six else 3)) << 5 | blue >> 3
                data = word.astype("<u2").tobytes()
            elif bits == 24:
                data = line[:, [2, 1, 0]].astype(np.uint8).tobytes()
            elif bits == 32:
                data = line[:, [2, 1, 0, 3]].astype(np.uint8).tobytes()
            else:
                data = packed(line[None], bits)[0]
            lines.append(data + bytes(-len(data) % 4))
        rows = b"".join(lines)
    count = used or (1 << bits if bits <= 8 else 0)
    if bits <= 8:
        entry = 3 if header == 12 else 4
        masks = b"".join(bytes([n * 37 % 256, n * 91 % 256, n * 151 % 256, 0])[:entry] for n in range(count))
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, -height if top else height, 1, bits, compression, len(rows), 0, 0, used, 0)
        extra = header - 40
        info += masks[: min(extra, 16)].ljust(extra, b"\0") if bits > 8 and extra else bytes(extra)
        if bits > 8 and extra:
            masks = b""
    start = 14 + len(info) + len(masks) + gap
    file = struct.pack("<2sIHHI", b"BM", start + len(rows), 0, 0, start if offset is None else offset)
    return file + info + masks + bytes([0xA5]) * gap + rows


def runs(width, height, bits):
    """RLE: rows alternate between runs and literal pixels."""
    out = bytearray()
    for y, line in enumerate(picture(width, height, 1, bits)[::-1, :, 0].tolist()):
        x = 0
        while x < width:
            if y % 2 == 0 or width - x < 3:
                end = x + 1
                while end < width and line[end] == line[x] and end - x < 255:
                    end += 1
                out += bytes([end - x, line[x] if bits == 8 else line[x] << 4 | line[x]])
            else:
                end = min(width, x + 20)
                part = line[x:end]
                data = bytes(part) if bits == 8 else bytes(a << 4 | b for a, b in itertools.zip_longest(part[::2], part[1::2], fillvalue=0))
                out += bytes([0, len(part)]) + data + bytes(len(data) % 2)
            x = end
        out += b"\0\0"
    return bytes(out + b"\0\1")


def bmps():
    rgb565 = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    rgb8888 = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    for width, height in SIZES:
        size = f"exact-{width}x{height}"
        for bits in (1, 4, 8, 16, 24, 32):
            put(f"{size}-{bits}.bmp", bmp(width, height, bits))
            put(f"{size}-{bits}-top.bmp", bmp(width, height, bits, top=True))
            put(f"{size}-{bits}-gap.bmp", bmp(width, height, bits, gap=10))
            if bits in (1, 4, 8, 24):
                put(f"{size}-{bits}-core.bmp", bmp(width, height, bits, header=12))
            put(f"{size}-{bits}-v4.bmp", bmp(width, height, bits, header=108))
        put(f"{size}-565.bmp", bmp(width, height, 16, compression=3, masks=rgb565))
        put(f"{size}-565-gap.bmp", bmp(width, height, 16, compression=3, masks=rgb565, gap=6))
        put(f"{size}-8888-v5.bmp", bmp(width, height, 32, header=124, compression=3, masks=rgb8888))
        put(f"{size}-8888-v3.bmp", bmp(width, height, 32, header=56, compression=3, masks=rgb8888))
        put(f"{size}-888.bmp", bmp(width, height, 32, compression=3, masks=rgb8888[:12]))
        put(f"{size}-rle8.bmp", bmp(width, height, 8, compression=1, rows=runs(width, height, 8)))
        put(f"{size}-rle4.bmp", bmp(width, height, 4, compression=2, rows=runs(width, height, 4)))
    put("exact-few.bmp", bmp(20, 14, 8, used=256))
    put("exact-offset-0.bmp", bmp(20, 14, 24, offset=0))
    put("exact-offset-0-8.bmp", bmp(20, 14, 8, offset=0))
    put("exact-offset-inside.bmp", bmp(20, 14, 24, offset=40))
    put("exact-offset-palette.bmp", bmp(20, 14, 8, offset=54))
    put("exact-offset-beyond.bmp", bmp(20, 14, 24, offset=5000))
    put("exact-offset-masks.bmp", bmp(20, 14, 16, compression=3, masks=rgb565, offset=54))


def tiff(pages, order="<", big=False):
    """A TIFF of tags and the pieces of one picture."""
    tags, pieces = pages
    mark = b"II" if order == "<" else b"MM"
    head = mark + (struct.pack(order + "HHHQ", 43, 8, 0, 16) if big else struct.pack(order + "HI", 42, 8))
    tags = dict(tags)
    offset_tag, length_tag = (324, 325) if 322 in tags else (273, 279)
    tags[offset_tag], tags[length_tag] = (4, [0] * len(pieces)), (4, [len(piece) for piece in pieces])
    entry, inline = (20, 8) if big else (12, 4)
    at = len(head) + (8 if big else 2) + entry * len(tags) + (8 if big else 4)
    forms = {1: "B", 3: "H", 4: "I", 7: "B", 16: "Q"}
    values = {tag: struct.pack(order + forms[kind] * len(numbers), *numbers) for tag, (kind, numbers) in tags.items()}
    outside, places = bytearray(), {}
    for tag, value in values.items():
        if len(value) > inline:
            places[tag] = at + len(outside)
            outside += value + bytes(len(value) % 2)
    first = at + len(outside)
    offsets = [first + sum(len(piece) for piece in pieces[:number]) for number in range(len(pieces))]
    values[offset_tag] = struct.pack(order + "I" * len(pieces), *offsets)
    if offset_tag in places:
        place = places[offset_tag] - at
        outside[place : place + len(values[offset_tag])] = values[offset_tag]
    out = head + struct.pack(order + ("Q" if big else "H"), len(tags))
    for tag in sorted(tags):
        kind, numbers = tags[tag]
        out += struct.pack(order + ("HHQ" if big else "HHI"), tag, kind, len(numbers))
        out += struct.pack(order + ("Q" if big else "I"), places[tag]) if tag in places else values[tag].ljust(inline, b"\0")
    return out + bytes(8 if big else 4) + bytes(outside) + b"".join(pieces)


def tiff_of(width, height, samples, bits, photometric, order="<", tile=None, planar=False, compression=1, reverse=False, rows=None, extra=None, colours=False, predictor=1, sample_format=None, array=None):
    array = picture(width, height, min(samples, 4), bits) if array is None else array
    tags = {256: (3, [width]), 257: (3, [height]), 258: (3, [bits] * samples), 259: (3, [compression]), 262: (3, [photometric]), 277: (3, [samples])}
    if planar:
        tags[284] = (3, [2])
    if reverse:
        tags[266] = (3, [2])
    if extra is not None:
        tags[338] = (3, extra)
    if colours:
        tags[320] = (3, [n * k % 256 * 257 for k in (37, 91, 151) for n in range(1 << bits)])
    if predictor != 1:
        tags[317] = (3, [predictor])
    if sample_format:
        tags[339] = (3, [sample_format] * samples)
    if tile:
        tags[322], tags[323] = (3, [tile[0]]), (3, [tile[1]])
    else:
        tags[278] = (3, [rows or height])
    piece_width, piece_height = tile or (width, rows or height)
    pieces = []
    for plane in [array[..., k : k + 1] for k in range(samples)] if planar else [array]:
        for y in range(0, height, piece_height):
            for x in range(0, width, piece_width):
                part = plane[y : y + piece_height, x : x + piece_width]
                if tile:
                    part = np.pad(part, [(0, piece_height - part.shape[0]), (0, piece_width - part.shape[1]), (0, 0)])
                if predictor == 2:
                    part = np.diff(part.astype(np.int64), axis=1, prepend=0).astype(np.int64) & ((1 << bits) - 1)
                data = b"".join(packed(part, bits))
                if bits == 16 and order == "<":
                    data = np.frombuffer(data, ">u2").astype("<u2").tobytes()
                data = {1: lambda d: d, 8: zlib.compress, 32946: zlib.compress}[compression](data)
                if reverse:
                    data = bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)
                pieces.append(data)
    return tags, pieces


def tiffs():
    for width, height in SIZES:
        size = f"exact-{width}x{height}"
        for samples, photometric, name in [(1, 1, "gray"), (1, 0, "white"), (3, 2, "rgb"), (4, 5, "cmyk")]:
            for bits in (1, 2, 4, 8, 16) if samples == 1 else (8, 16):
                for order in "<>":
                    put(f"{size}-{name}-{bits}-{'le' if order == '<' else 'be'}.tif", tiff(tiff_of(width, height, samples, bits, photometric, order), order))
                put(f"{size}-{name}-{bits}-tiles.tif", tiff(tiff_of(width, height, samples, bits, photometric, tile=(16, 32))))
                put(f"{size}-{name}-{bits}-strips.tif", tiff(tiff_of(width, height, samples, bits, photometric, rows=5)))
                put(f"{size}-{name}-{bits}-deflate.tif", tiff(tiff_of(width, height, samples, bits, photometric, compression=8)))
                put(f"{size}-{name}-{bits}-reversed.tif", tiff(tiff_of(width, height, samples, bits, photometric, reverse=True)))
                put(f"{size}-{name}-{bits}-big.tif", tiff(tiff_of(width, height, samples, bits, photometric), big=True))
                put(f"{size}-{name}-{bits}-big-be.tif", tiff(tiff_of(width, height, samples, bits, photometric, ">"), ">", big=True))
                if bits >= 8:
                    put(f"{size}-{name}-{bits}-predictor.tif", tiff(tiff_of(width, height, samples, bits, photometric, compression=8, predictor=2)))
                if samples > 1:
                    put(f"{size}-{name}-{bits}-planar.tif", tiff(tiff_of(width, height, samples, bits, photometric, planar=True)))
                    put(f"{size}-{name}-{bits}-planar-tiles.tif", tiff(tiff_of(width, height, samples, bits, photometric, planar=True, tile=(16, 16))))
        for bits in (1, 2, 4, 8):
            put(f"{size}-palette-{bits}.tif", tiff(tiff_of(width, height, 1, bits, 3, colours=True)))
        for bits in (8, 16):
            array = picture(width, height, 4, bits)
            premultiplied = array.copy()
            premultiplied[..., :3] = np.minimum(array[..., :3], array[..., 3:])
            put(f"{size}-alpha-{bits}.tif", tiff(tiff_of(width, height, 4, bits, 2, extra=[2])))
            put(f"{size}-premultiplied-{bits}.tif", tiff(tiff_of(width, height, 4, bits, 2, extra=[1], array=premultiplied)))
            put(f"{size}-padding-{bits}.tif", tiff(tiff_of(width, height, 4, bits, 2, extra=[0])))
            put(f"{size}-unsaid-{bits}.tif", tiff(tiff_of(width, height, 4, bits, 2)))
        put(f"{size}-gray-alpha.tif", tiff(tiff_of(width, height, 2, 8, 1, extra=[2], array=picture(width, height, 3)[..., 1:])))
    put("exact-signed.tif", tiff(tiff_of(20, 14, 1, 8, 1, sample_format=2)))
    put("exact-float.tif", saved(Image.fromarray(np.zeros((14, 20), np.float32)), "TIFF"))
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    for width, height in SIZES:
        put(f"exact-{width}x{height}-lab.tif", saved(ImageCms.profileToProfile(image(width, height), srgb, lab, outputMode="LAB"), "TIFF"))
        put(f"exact-{width}x{height}-lab-le.tif", tiff(tiff_of(width, height, 3, 8, 8)))
        put(f"exact-{width}x{height}-lab-planar.tif", tiff(tiff_of(width, height, 3, 8, 8, planar=True)))
    rgb, gray, black = image(45, 37), image(45, 37, "L"), image(45, 37, "L").convert("1")
    for compression in ["raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "zstd", "lzma", "webp"]:
        for name, one in [("rgb", rgb), ("gray", gray), ("palette", rgb.quantize(200))]:
            try:
                put(f"exact-{name}-{compression}.tif", saved(one, "TIFF", compression=compression))
            except (OSError, KeyError, ValueError):
                pass
    for compression in ["group3", "group4", "tiff_ccitt"]:
        put(f"exact-{compression}.tif", saved(black, "TIFF", compression=compression))
    for width, height in SIZES:
        for compression in ["group3", "group4", "tiff_ccitt"]:
            put(f"exact-{width}x{height}-{compression}.tif", saved(image(width, height, "L").convert("1"), "TIFF", compression=compression))
    put("close-jpeg.tif", saved(rgb, "TIFF", compression="jpeg", quality=90))
    put("close-jpeg-gray.tif", saved(gray, "TIFF", compression="jpeg", quality=90))
    put("close-jpeg-large.tif", saved(image(300, 200), "TIFF", compression="jpeg", quality=90))
    if not shutil.which("tiffcp"):
        return
    source = OUT / "source.tiff"
    source.write_bytes(saved(image(70, 50), "TIFF"))
    for name, options in {
        "lzw-predictor": ["-c", "lzw:2"],
        "lzw-tiles": ["-c", "lzw", "-t", "-w", "32", "-l", "16"],
        "planar-lzw": ["-p", "separate", "-c", "lzw:2"],
        "planar-tiles": ["-p", "separate", "-t", "-w", "32", "-l", "16"],
        "jpeg-rgb": ["-c", "jpeg:r"],
        "jpeg-ycbcr": ["-c", "jpeg"],
        "jpeg-tiles": ["-c", "jpeg", "-t", "-w", "32", "-l", "16"],
        "reversed-lzw": ["-f", "lsb2msb", "-c", "lzw"],
        "reversed-zip": ["-f", "lsb2msb", "-c", "zip"],
        "reversed-packbits": ["-f", "lsb2msb", "-c", "packbits"],
        "big": ["-8"],
        "big-endian": ["-B"],
    }.items():
        made = OUT / f"{'close' if 'jpeg' in name else 'exact'}-tiffcp-{name}.tif"
        subprocess.run(["tiffcp", *options, str(source), str(made)], capture_output=True)
    source.write_bytes(saved(image(70, 50, "L").convert("1"), "TIFF"))
    group_3 = {f"g3-{'-'.join(way)}": ["-c", ":".join(["g3", *way])] for way in (["1d"], ["1d", "fill"], ["2d"], ["2d", "fill"])}
    group_3 |= {"g3-reversed": ["-f", "lsb2msb", "-c", "g3:1d"], "g3-strips": ["-c", "g3:1d", "-r", "7"]}
    for name, options in {"g4-reversed": ["-f", "lsb2msb", "-c", "g4"], "g4-strips": ["-c", "g4", "-r", "7"], **group_3}.items():
        subprocess.run(["tiffcp", *options, str(source), str(OUT / f"exact-tiffcp-{name}.tif")], capture_output=True)
    source.unlink()


def others():
    for width, height in SIZES:
        size = f"{width}x{height}"
        for mode in ("RGB", "RGBA"):
            put(f"exact-{size}-{mode}.webp", saved(image(width, height, mode), "WEBP", lossless=True, exact=True))
            put(f"close-{size}-{mode}.webp", saved(image(width, height, mode), "WEBP", quality=80))
        frames = [image(width, height).rotate(90 * turn) for turn in range(2)]
        put(f"exact-{size}-frames.webp", saved(frames[0], "WEBP", lossless=True, save_all=True, append_images=frames[1:]))
        for most in (1, 15, 255, 1000, 65535):
            bits = most.bit_length()
            for magic, channels in ((5, 1), (6, 3)):
                array = np.minimum(picture(width, height, channels, min(16, bits)), most)
                data = array.astype(">u2" if most > 255 else np.uint8).tobytes()
                put(f"exact-{size}-{magic}-{most}.pnm", b"P%d\n%d %d\n%d\n" % (magic, width, height, most) + data)
                plain = " ".join(map(str, array.reshape(-1).tolist())).encode()
                put(f"exact-{size}-{magic - 3}-{most}.pnm", b"P%d\n%d %d\n%d\n" % (magic - 3, width, height, most) + plain + b"\n")
        black = picture(width, height, 1, 1)
        put(f"exact-{size}-4.pnm", b"P4\n%d %d\n" % (width, height) + b"".join(packed(black, 1)))
        put(f"exact-{size}-1.pnm", b"P1\n%d %d\n" % (width, height) + " ".join(map(str, black.reshape(-1).tolist())).encode() + b"\n")


def pixels(path):
    """The pixels as Pillow decodes them, 8 bits a channel."""
    # Pillow 13 refuses big-endian BigTIFF and some reversed bits, and decodes planar or inverted 16-bit and Lab images wrongly.
    # The expected pixels come from the same samples in the usual order.
    usual = re.sub("-(big-be|reversed|planar|planar-tiles)[.]", "-le.", path.name)
    if usual != path.name and path.name.startswith("exact-") and "tiffcp" not in path.name:
        return pixels(path.with_name(usual))
    if "-white-16-" in path.name:
        head, inverted = pixels(path.with_name(path.name.replace("-white-", "-gray-"))).split(b"\n", 1)
        return head + b"\n" + bytes(255 - level for level in inverted)
    with Image.open(path) as found:
        found.load()
        if found.mode in ("1", "L", "LA", "RGB", "RGBA"):
            one = found.convert("L") if found.mode == "1" else found
        elif found.mode.startswith("I"):
            array = np.asarray(found).astype(np.uint32)
            one = Image.fromarray(((array + 128) // 257).astype(np.uint8), "L")
        elif found.mode in ("P", "PA"):
            one = found.convert("RGBA" if "transparency" in found.info or found.mode == "PA" else "RGB")
        elif found.mode == "LAB":
            srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
            one = ImageCms.profileToProfile(found, lab, srgb, outputMode="RGB", flags=ImageCms.Flags.NOOPTIMIZE)
        elif found.mode in ("CMYK", "RGBX"):
            one = found.convert("RGB")
        else:
            raise ValueError(f"mode {found.mode}")
    return b"%d %d %d\n" % (*one.size, len(one.getbands())) + one.tobytes()


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for make in (jpegs, pngs, gifs, bmps, tiffs, others):
        make()
    for path in sorted(OUT.iterdir()):
        try:
            made = pixels(path)
        except Exception:  # Pillow may raise any exception
            continue
        path.with_name(path.name + ".pixels").write_bytes(made)


if __name__ == "__main__":
    main()
