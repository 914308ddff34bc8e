#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes iq_grids.c: the code books of the IQ types, a few bits an element.

usage: iq_grids.py DIRECTORY >iq_grids.c

DIRECTORY has iq2xxs.txt, iq2xs.txt, iq2s.txt, iq1s.txt (8 elements an entry),
iq3xxs.txt and iq3s.txt (4 elements): one entry a line in hexadecimal, a byte an
element, element 0 in the last two digits. Element j of an entry becomes bits
w*j ... w*j + w - 1 of a 16-bit number: the index of its value in the list below.
"""
import os
import sys

GRIDS = (
    # file, bits an element, values
    ('iq2xxs', 2, (8, 25, 43)),
    ('iq2xs', 2, (8, 25, 43)),
    ('iq2s', 2, (8, 25, 43)),
    ('iq1s', 2, (0xff, 0, 1)),
    ('iq3xxs', 3, (4, 12, 20, 28, 36, 44, 52, 62)),
    ('iq3s', 3, (1, 3, 5, 7, 9, 11, 13, 15)),
)

print('''/* SPDX-License-Identifier: MIT */
/* Written by iq_grids.py; the meaning of the numbers is in iq_grids.h. */
#include "iq_grids.h"''')
for name, width, values in GRIDS:
    with open(os.path.join(sys.argv[1], name + '.txt')) as f:
        entries = [bytes.fromhex(line.strip())[::-1] for line in f]
    print('\nconst uint16_t grid_%s[%d] = {' % (name, len(entries)))
    codes = [sum(values.index(v) << width * j for j, v in enumerate(e))
             for e in entries]
    for i in range(0, len(codes), 8):
        print('\t' + ' '.join('0x%04x,' % c for c in codes[i:i + 8]))
    print('};')
