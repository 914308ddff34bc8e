#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unicode_data.c from the Unicode Character Database.

usage: lib/text/unicode_data.py [directory] >lib/text/unicode_data.c

The directory (default /usr/share/unicode, Debian package unicode-data) holds
UnicodeData.txt and PropList.txt.
"""
import sys

# In the order of enum char_class in unicode.h.
CLASSES = ["other", "space", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S"]
BLOCK = 256


def read_classes(directory):
    """The class of each code point, and the version of the database."""
    cls = [0] * 0x110000
    first = None
    with open(directory + "/UnicodeData.txt", encoding="ascii") as f:
        for line in f:
            field = line.split(";")
            cp, name, cat = int(field[0], 16), field[1], field[2]
            if name.endswith(", First>"):
                first = cp
                continue
            start = first if name.endswith(", Last>") else cp
            first = None
            key = cat if cat in CLASSES else cat[0]
            value = CLASSES.index(key) if key in CLASSES else 0
            for i in range(start, cp + 1):
                cls[i] = value
    with open(directory + "/PropList.txt", encoding="utf-8") as f:
        version = f.readline().split("-")[1].removesuffix(".txt\n")
        for line in f:
            field = line.split("#")[0].split(";")
            if len(field) == 2 and field[1].strip() == "White_Space":
                ends = [int(x, 16) for x in field[0].split("..")]
                for i in range(ends[0], ends[-1] + 1):
                    assert cls[i] == 0
                    cls[i] = CLASSES.index("space")
    return cls, version


def print_table(kind, name, values):
    print("const %s %s[%d] = {" % (kind, name, len(values)))
    line = ""
    for v in values:
        word = "%d," % v
        if len(line) + len(word) > 70:
            print("\t" + line)
            line = ""
        line += word
    print("\t" + line + "\n};")


def main():
    cls, version = read_classes((sys.argv + ["/usr/share/unicode"])[1])
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


main()
