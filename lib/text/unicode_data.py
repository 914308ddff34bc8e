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
BLOCK = 256


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


def print_table(kind, name, values):
    print("const %s %s[%d] = {" % (kind, name, len(values)))
    line = ""
    for v in values:
        word = "{%d,%d}," % v if isinstance(v, tuple) else "%d," % v
        if len(line) + len(word) > 70:
            print("\t" + line)
            line = ""
        line += word
    print("\t" + line + "\n};")


def print_pairs(name, rows):
    print_table("struct unicode_pair", name, rows)
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

    stage1, stage2, seen = [], [], {}
    for i in range(0, len(cls), BLOCK):
        block = tuple(cls[i:i + BLOCK])
        if block not in seen:
            seen[block] = len(seen)
            stage2 += [block[k] | block[k + 1] << 4
                       for k in range(0, BLOCK, 2)]
        stage1.append(seen[block])
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Made by unicode_data.py from Unicode %s; do not edit. */"
          % version)
    print('#include "unicode.h"\n')
    print("/* Number of the block that holds a code point's class. */")
    print_table("uint16_t", "unicode_block", stage1)
    print("\n/* Blocks of %d classes, two in a byte, the lower first. */"
          % BLOCK)
    print_table("uint8_t", "unicode_classes", stage2)
    print("\n/* Simple lower-case mappings. */")
    print_pairs("unicode_lower", sorted(lower.items()))
    print("\n/* Canonical decompositions without marks of class Mn; a row for"
          "\n   each character of the result, in order. */")
    print_pairs("unicode_base", base_rows(cls, decomposed))
    print("\n/* Ranges of the script Han. */")
    print_pairs("unicode_han", joined(han))


main()
