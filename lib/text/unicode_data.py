#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unicode_data.c from the Unicode Character Database.

usage: lib/text/unicode_data.py [directory] >lib/text/unicode_data.c

The directory (default /usr/share/unicode, Debian package unicode-data) holds
UnicodeData.txt, PropList.txt and Scripts.txt.
"""
import sys

# In the order of enum char_class in unicode.h: general categories, or their
# first letters; "other" is Cn, "control" Cc, Cf, Co and Cs.
CLASSES = ["other", "control", "space", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn",
           "M", "Nd", "Nl", "N", "Pc", "P", "S"]
# A block of classes, and a group of blocks: what makes the tables smallest.
BLOCK, GROUP = 32, 32


def class_of(category):
    if category[0] == "C" and category != "Cn":
        return CLASSES.index("control")
    for key in (category, category[0]):
        if key in CLASSES:
            return CLASSES.index(key)
    return 0


def read_characters(directory):
    """Classes, canonical decompositions and lower-case mappings."""
    cls, decomposed, lower = [0] * 0x110000, {}, {}
    first = None
    with open(directory + "/UnicodeData.txt", encoding="ascii") as f:
        for line in f:
            field = line.split(";")
            cp, name = int(field[0], 16), field[1]
            if name.endswith(", First>"):
                first = cp
                continue
            start = first if name.endswith(", Last>") else cp
            first = None
            for i in range(start, cp + 1):
                cls[i] = class_of(field[2])
            if field[5] and field[5][0] != "<":
                decomposed[cp] = [int(x, 16) for x in field[5].split()]
            if field[13]:
                lower[cp] = int(field[13], 16)
    return cls, decomposed, lower


def read_ranges(path, wanted):
    """The code point ranges of a property's value, and the file's version."""
    ranges = []
    with open(path, encoding="utf-8") as f:
        version = f.readline().split("-")[1].removesuffix(".txt\n")
        for line in f:
            field = line.split("#")[0].split(";")
            if len(field) == 2 and field[1].strip() == wanted:
                ends = [int(x, 16) for x in field[0].split("..")]
                ranges.append((ends[0], ends[-1]))
    return sorted(ranges), version


def joined(ranges):
    """Ranges that touch become one."""
    out = []
    for lo, hi in ranges:
        if out and out[-1][1] + 1 == lo:
            out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return out


def base_rows(cls, decomposed):
    """Decompositions in full, without the marks of class Mn."""
    def full(cp):
        if cp not in decomposed:
            return [cp]
        return [x for part in decomposed[cp] for x in full(part)]

    mn = CLASSES.index("Mn")
    rows = []
    for cp in sorted(decomposed):
        if cls[cp] == mn:
            continue
        base = [x for x in full(cp) if cls[x] != mn]
        assert base
        rows += [(cp, x) for x in base]
    return rows


def runs(rows):
    """Pairs (from, to) as runs of a shift: first, shift, number, step."""
    out = []
    for cp, to in rows:
        if out and out[-1][1] == to - cp:
            first, shift, n, step = out[-1]
            gap = cp - (first + (n - 1) * step)
            if n < 255 and (gap == step or n == 1 and gap == 2):
                out[-1] = (first, shift, n + 1, gap)
                continue
        out.append((cp, to - cp, 1, 1))
    return out


def blocks(values, size):
    """Blocks without repetitions, and the number of each in turn."""
    numbers, seen = [], {}
    for i in range(0, len(values), size):
        numbers.append(seen.setdefault(tuple(values[i:i + size]), len(seen)))
    return [x for block in seen for x in block], numbers


def print_table(kind, name, values):
    print("const %s %s[%d] = {" % (kind, name, len(values)))
    line = ""
    for v in values:
        word = str(v).replace(" ", "").replace("(", "{").replace(")", "}") \
            + ","
        if len(line) + len(word) > 70:
            print("\t" + line)
            line = ""
        line += word
    print("\t" + line + "\n};")


def print_rows(kind, name, rows):
    print_table(kind, name, rows)
    print("const size_t %s_n = %d;" % (name, len(rows)))


def main():
    directory = (sys.argv + ["/usr/share/unicode"])[1]
    cls, decomposed, lower = read_characters(directory)
    white, version = read_ranges(directory + "/PropList.txt", "White_Space")
    for lo, hi in white:
        for i in range(lo, hi + 1):
            assert CLASSES[cls[i]] in ("other", "control")
            cls[i] = CLASSES.index("space")
    han, _ = read_ranges(directory + "/Scripts.txt", "Han")

    classes, block = blocks(cls, BLOCK)
    block, group = blocks(block, GROUP)
    base = base_rows(cls, decomposed)
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Made by unicode_data.py from Unicode %s; do not edit. */"
          % version)
    print('#include "unicode.h"\n')
    print("/* Number of the group that holds a code point's block. */")
    print_table("uint8_t", "unicode_group", group)
    print("\n/* Groups of %d numbers of blocks. */" % GROUP)
    print_table("uint16_t", "unicode_block", block)
    print("\n/* Blocks of %d classes, two in a byte, the lower first. */"
          % BLOCK)
    print_table("uint8_t", "unicode_classes",
                [classes[i] | classes[i + 1] << 4
                 for i in range(0, len(classes), 2)])
    print("\n/* Simple lower-case mappings. */")
    print_rows("struct unicode_run", "unicode_lower",
               runs(sorted(lower.items())))
    print("\n/* Canonical decompositions without marks of class Mn; a row for"
          "\n   each character of the result, in order. */")
    near = [r for r in base if max(r) < 0x10000]
    far = [r for r in base if max(r) >= 0x10000]
    assert not {r[0] for r in near} & {r[0] for r in far}
    print_rows("struct unicode_short", "unicode_base", near)
    print("\n/* Those with a character that takes more than 16 bits. */")
    print_rows("struct unicode_pair", "unicode_far", far)
    print("\n/* Ranges of the script Han. */")
    print_rows("struct unicode_pair", "unicode_han", joined(han))


main()
