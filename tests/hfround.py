#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Puts the vocabulary of a GGUF file into a folder of another, smaller model of
# the same kind of tokenizer, so that it can be converted back; and compares how a
# model tokenizes with cases.
# usage: hfround.py make VOCAB.gguf BASE FOLDER
#        hfround.py check MODEL.gguf CASES.jsonl
import json
import os
import shutil
import struct
import subprocess
import sys

FORMATS = '<B <b <H <h <I <i <f <? s a <Q <q <d'.split()


def read_keys(path):
    data = open(path, 'rb').read()
    pos = 16

    def take(fmt):
        nonlocal pos
        pos += struct.calcsize(fmt)
        return struct.unpack_from(fmt, data, pos - struct.calcsize(fmt))[0]

    def string():
        nonlocal pos
        n = take('<Q')
        pos += n
        return data[pos - n:pos].decode()

    def value(kind):
        if kind == 8:
            return string()
        if kind == 9:
            elem, n = take('<I'), take('<Q')
            return [value(elem) for _ in range(n)]
        return take(FORMATS[kind])

    keys = {}
    for _ in range(take('<Q')):
        key = string()
        keys[key] = value(take('<I'))
    return keys


def weights(folder, config):
    """All tensors of one layer, zeros, in the shapes of config.json."""
    d, f, v = (config[k] for k in
               ('hidden_size', 'intermediate_size', 'vocab_size'))
    n, kv = config['num_attention_heads'], config['num_key_value_heads']
    h = config.get('head_dim', d // n)
    shapes = {'embed_tokens': [v, d], 'norm': [d]}
    for name, shape in (
            ('input_layernorm', [d]), ('post_attention_layernorm', [d]),
            ('self_attn.q_proj', [n * h, d]), ('self_attn.k_proj', [kv * h, d]),
            ('self_attn.v_proj', [kv * h, d]), ('self_attn.o_proj', [d, n * h]),
            ('mlp.gate_proj', [f, d]), ('mlp.up_proj', [f, d]),
            ('mlp.down_proj', [d, f])):
        shapes['layers.0.' + name] = shape
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2
        for x in shape:
            size *= x
        header['model.%s.weight' % name] = {
            'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as out:
        out.write(struct.pack('<Q', len(text)) + text)
        out.truncate(8 + len(text) + at)


def merges_of(tokens, scores, types):
    """Merges by score: each way to make a token of two others."""
    ids = [i for i, y in enumerate(types) if y == 1]
    normal = {tokens[i] for i in ids}
    out = []
    for t in (tokens[i] for i in sorted(ids, key=lambda i: (-scores[i], i))):
        for i in range(1, len(t)):
            if t[:i] in normal and t[i:] in normal:
                out.append([t[:i], t[i:]])
    return out


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def piece(text, score, kind):
    text = text.encode()
    body = b'\n' + varint(len(text)) + text + b'\x15' + \
        struct.pack('<f', score) + b'\x18' + varint(kind)
    return b'\n' + varint(len(body)) + body


def make(vocab, base, folder):
    keys = read_keys(vocab)
    tokens = keys['tokenizer.ggml.tokens']
    types = keys['tokenizer.ggml.token_type']
    scores = keys.get('tokenizer.ggml.scores')
    shutil.copytree(base, folder)
    os.chmod(folder, 0o755)
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), 0o644)
    config = json.load(open(folder + '/config.json'))
    tok = json.load(open(folder + '/tokenizer_config.json'))
    config = {k: x for k, x in config.items() if not k.endswith('token_id')}
    config.update(vocab_size=len(tokens), architectures=['LlamaForCausalLM'],
                  hidden_size=2, num_attention_heads=1, num_key_value_heads=1,
                  head_dim=2, intermediate_size=2, num_hidden_layers=1,
                  tie_word_embeddings=True, hidden_act='silu',
                  rms_norm_eps=1e-5, max_position_embeddings=16)
    tok = {k: x for k, x in tok.items() if k in
           ('clean_up_tokenization_spaces', 'tokenizer_class')}
    for name in ('bos', 'eos'):
        key = 'tokenizer.ggml.%s_token_id' % name
        if key in keys:
            config[name + '_token_id'] = keys[key]
        if 'tokenizer.ggml.add_%s_token' % name in keys:
            tok['add_%s_token' % name] = \
                keys['tokenizer.ggml.add_%s_token' % name]
    if keys.get('tokenizer.ggml.add_space_prefix') is not None:
        tok['add_prefix_space'] = keys['tokenizer.ggml.add_space_prefix']
    path = folder + '/tokenizer.json'
    if os.path.exists(path):
        t = json.load(open(path))
        t['added_tokens'] = [
            {'id': i, 'content': x, 'special': y == 3}
            for i, (x, y) in enumerate(zip(tokens, types)) if y in (3, 4)]
        t['model']['vocab'] = {x: i for i, (x, y) in
                               enumerate(zip(tokens, types)) if y in (1, 2, 6)}
        if 'tokenizer.ggml.merges' in keys:
            t['model']['merges'] = keys['tokenizer.ggml.merges']
        else:
            t['model']['merges'] = merges_of(
                tokens, scores, types)
        json.dump(t, open(path, 'w'), ensure_ascii=False)
    else:
        tok['added_tokens_decoder'] = {
            str(i): {'content': x.replace(' ', '\u2581'), 'special': y == 3}
            for i, (x, y) in enumerate(zip(tokens, types)) if y in (3, 4)}
        with open(folder + '/tokenizer.model', 'wb') as out:
            for x, s, y in zip(tokens, scores, types):
                out.write(piece(x, s, y))
            # trainer: BPE; normalizer: as usual
            out.write(b'\x12\x02\x18\x02\x1a\x00')
    json.dump(config, open(folder + '/config.json', 'w'))
    json.dump(tok, open(folder + '/tokenizer_config.json', 'w'))
    weights(folder, config)
    return 0


def check(model, cases):
    groups = {}
    for line in open(cases, encoding='utf-8'):
        case = json.loads(line)
        groups.setdefault((case['add_special'], case['parse_special']),
                          []).append(case)
    wrong = n = 0
    for (special, parse), group in groups.items():
        args = ['pico-tokenize', '-q', '-0', '-m', model]
        args += ['-S'] if parse else []
        args += [] if special else ['--no-bos', '--no-eos']
        text = b''.join(c['text'].encode() + b'\0' for c in group)
        got = subprocess.run(args, input=text, capture_output=True,
                             check=True).stdout.decode().split('\n')
        for c, ids in zip(group, got):
            n += 1
            ids, want = [int(i) for i in ids.split()], c['ids']
            # never two BOS
            double = special and want[:1] == want[1:2]
            if ids != want and not (double and ids == want[1:]):
                wrong += 1
                if wrong < 4:
                    print('%.99r: %.99s instead of %.99s' %
                          (c['text'], ids, want))
    print('%d of %d texts' % (n - wrong, n))
    return 1 if wrong or not n else 0


if __name__ == '__main__':
    sys.exit({'make': make, 'check': check}[sys.argv[1]](*sys.argv[2:]))
