#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Compares a GGUF file with what a conversion case expects: keys with types and
# values, tensors with types, dimensions and the sha256 of their bytes.
# usage: checkgguf.py FILE EXPECTED.json TYPE
import base64
import hashlib
import json
import struct
import sys

NAMES = 'u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64'.split()
FORMATS = '<B <b <H <h <I <i <f <? s a <Q <q <d'.split()
TYPES = {0: ('F32', 1, 4), 1: ('F16', 1, 2), 8: ('Q8_0', 32, 34),
         30: ('BF16', 1, 2)}


class Reader:
    def __init__(self, data):
        self.data, self.pos = data, 0

    def take(self, fmt):
        size = struct.calcsize(fmt)
        self.pos += size
        return struct.unpack_from(fmt, self.data, self.pos - size)[0]

    def string(self):
        n = self.take('<Q')
        self.pos += n
        return self.data[self.pos - n:self.pos].decode()

    def value(self, kind):
        if NAMES[kind] == 'string':
            return self.string()
        if NAMES[kind] == 'array':
            elem, n = self.take('<I'), self.take('<Q')
            return NAMES[elem], [self.value(elem) for _ in range(n)]
        return self.take(FORMATS[kind])


def near(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) <= abs(b) * 2 ** -23
    return a == b


def same(got, want):
    kind, value = got
    if kind == 'array':
        kind, value = 'array ' + value[0], value[1]
    if kind != want['type']:
        return False
    w = want['value']
    if isinstance(w, list):
        return len(w) == len(value) and all(map(near, value, w))
    return near(value, w)


def main(path, expected, kind):
    faults = []
    r = Reader(open(path, 'rb').read())
    want = json.load(open(expected))
    tensors = want['types'][kind]
    assert r.take('<I') == 0x46554747 and r.take('<I') == 3
    n_tensors, n_kv = r.take('<Q'), r.take('<Q')
    keys = {}
    for _ in range(n_kv):
        key = r.string()
        t = r.take('<I')
        assert key not in keys
        keys[key] = NAMES[t], r.value(t)
    if next(iter(keys)) != 'general.architecture':
        faults.append('general.architecture is not first')
    keys.pop('general.name', None)
    if want['optional_tensors']:
        keys.pop('general.size_label', None)
        want['metadata'].pop('general.size_label', None)
    file_type = keys.pop('general.file_type', None)
    if file_type != ('u32', tensors['general.file_type']):
        faults.append('file_type %s' % (file_type,))
    table = []
    for _ in range(n_tensors):
        name, n = r.string(), r.take('<I')
        dims = [r.take('<Q') for _ in range(n)]
        table.append((name, dims, r.take('<I'), r.take('<Q')))
    start, at = (r.pos + 31) // 32 * 32, 0
    names = [t[0] for t in table]
    for key, w in want['metadata'].items():
        if key not in keys:
            faults.append('key %s is missing' % key)
        elif not same(keys[key], w):
            faults.append('key %s: %.200s instead of %.200s' %
                          (key, keys[key], w))
        keys.pop(key, None)
    for key in keys:
        if key not in want['optional'] or \
                not same(keys[key], want['optional'][key]):
            faults.append('key %s: %.200s is surplus or wrong' %
                          (key, keys[key]))
    for name, dims, t, offset in table:
        type_name, block, size = TYPES[t]
        n = 1
        for d in dims:
            n *= d
        n = n // block * size
        if offset != at:
            faults.append('%s: offset %d instead of %d' % (name, offset, at))
        at = (offset + n + 31) // 32 * 32
        data = r.data[start + offset:start + offset + n]
        w = tensors['tensors'].get(name)
        if w is None:
            if name not in want['optional_tensors']:
                faults.append('tensor %s is surplus' % name)
            continue
        if (type_name, dims) != (w['type'], w['dims']):
            faults.append('%s: %s %s instead of %s %s' %
                          (name, type_name, dims, w['type'], w['dims']))
        elif 'sha256' in w:
            if hashlib.sha256(data).hexdigest() != w['sha256']:
                faults.append('%s: other bytes' % name)
        else:
            w32 = base64.b64decode(w['f32'])
            fmt = '<%df' % (len(w32) // 4)
            for a, b in zip(struct.unpack(fmt, data), struct.unpack(fmt, w32)):
                if abs(a - b) > abs(b) * w['rtol']:
                    faults.append('%s: %g instead of %g' % (name, a, b))
    if start + at != len(r.data):
        faults.append('%d bytes instead of %d' % (len(r.data), start + at))
    for name in tensors['tensors']:
        if name not in names and name not in want['optional_tensors']:
            faults.append('tensor %s is missing' % name)
    for f in faults:
        print('%s: %s' % (path, f))
    return 1 if faults else 0


sys.exit(main(*sys.argv[1:4]))
