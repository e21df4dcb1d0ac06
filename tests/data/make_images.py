#!/usr/bin/env python3
"""Makes the small images of this folder and images.npz, what Pillow reads from them (needs numpy and pillow).

images.npz: NAME is the image as stored (gray or RGB, 8 bits), NAME.rgb it in RGB, resized to 5 rows of 7 pixels, and
NAME.gray it in gray, resized to 20 x 18. NumPy's seed is fixed, so that the pixels are the same again.
"""
import pathlib, struct, zlib
import numpy as np
from PIL import Image

here = pathlib.Path(__file__).parent
rng = np.random.default_rng(7)


def picture(height, width, channels):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    smooth = 127 + 90 * np.sin(y / 3 + c) + 30 * np.cos(x / 2 - c)
    return np.clip(smooth + rng.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8)


def interlaced(path, gray):
    """Adam7 by hand: Pillow does not write it."""
    rows = b""
    passes = (0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)
    for y, x, dy, dx in passes:
        part = gray[y::dy, x::dx]
        rows += b"".join(b"\0" + row.tobytes() for row in part if part.size)
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", gray.shape[1], gray.shape[0], 8, 0, 0, 0, 1)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) +
                     chunk(b"IEND", b""))


gray, rgb = picture(11, 9, 1)[:, :, 0], picture(11, 9, 3)
Image.fromarray(gray).save(here / "gray.png")
Image.fromarray(gray > 127).save(here / "bits.png")
Image.fromarray(rgb).quantize(16).save(here / "palette.png")
Image.fromarray(rgb).save(here / "rgb.png")
Image.fromarray(np.dstack([rgb, gray])).save(here / "alpha.png")
interlaced(here / "interlaced.png", gray)
Image.fromarray(gray).save(here / "gray.jpg", quality=90)
large = picture(24, 30, 3)
Image.fromarray(large).save(here / "rgb.jpg", quality=85)
Image.fromarray(large).save(here / "progressive.jpg", quality=85, progressive=True)
Image.fromarray(large).convert("CMYK").save(here / "cmyk.jpg")

arrays = {}
for path in sorted(here.glob("*.png")) + sorted(here.glob("*.jpg")):
    if path.stem == "cmyk":
        continue
    image = Image.open(path)
    stored = image.convert("L" if image.mode in ("1", "L") else "RGB")
    arrays[path.name] = np.asarray(stored).reshape(stored.height, stored.width, -1)
    arrays[path.name + ".rgb"] = np.asarray(stored.convert("RGB").resize((7, 5), Image.BILINEAR))
    arrays[path.name + ".gray"] = np.asarray(stored.convert("L").resize((18, 20), Image.BILINEAR))[:, :, None]
np.savez_compressed(here / "images.npz", **arrays)
