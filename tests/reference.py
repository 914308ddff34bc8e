#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A slow forward pass to judge the fast one by: plain Python, 64-bit floats.

usage: reference.py logits MODEL [-c N] <ids >rows    one line of token ids in;
           out: the logits after each id, little-endian float32
       reference.py check MODEL [-c N] [-t TOL] <stream    the largest
           difference to what `pico-forward -a` wrote; exit 1 if above TOL
       reference.py trust DIR             the largest difference to the answers
           for each model of a MANIFEST.tsv; exit 1 if one is above 1e-4
       reference.py make CASE OUT.gguf [NAME=JSON ...]  a tiny random model
           (refcases.py), with other keys or vectors; "NAME=": without it
       reference.py cases                 the names of all cases

It is written from the formulas, one token at a time, a vector a list, a matrix
a list of rows, and shares nothing with lib/model: what both compute alike is
probably right. -c is the context (it chooses the table of longrope).
"""
import math
import struct
import sys
from operator import add, mul
from types import SimpleNamespace

sys.dont_write_bytecode = True


# ---- GGUF ----

SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?',
           10: 'Q', 11: 'q', 12: 'd'}
FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def nibbles(qs):
    return [b & 15 for b in qs] + [b >> 4 for b in qs]


def q4_0(block):
    d, = struct.unpack_from('<e', block)
    return [d * (n - 8) for n in nibbles(block[2:])]


def q8_0(block):
    d, *q = struct.unpack('<e32b', block)
    return [d * n for n in q]


def mxfp4(block):
    scale = 2.0 ** (block[0] - 128)
    return [scale * FP4[n] for n in nibbles(block[1:])]


def q4_k(block):
    d, dmin = struct.unpack_from('<2e', block)
    p, qs, out = block[4:16], block[16:], []
    for j in range(8):
        if j < 4:
            scale, low = p[j] & 63, p[j + 4] & 63
        else:
            scale = p[j + 4] & 15 | p[j - 4] >> 6 << 4
            low = p[j + 4] >> 4 | p[j] >> 6 << 4
        part = nibbles(qs[j // 2 * 32:j // 2 * 32 + 32])
        out += [d * scale * q - dmin * low
                for q in part[j % 2 * 32:j % 2 * 32 + 32]]
    return out


BLOCKS = {2: (32, 18, q4_0), 8: (32, 34, q8_0), 12: (256, 144, q4_k),
          39: (32, 17, mxfp4)}
PLAIN = {0: (4, 'f'), 1: (2, 'e'), 30: (2, 'H')}


def values_of(data, kind, start, n):
    """n numbers of a tensor of this type, as floats."""
    if kind in PLAIN:
        size, code = PLAIN[kind]
        x = list(struct.unpack_from('<%d%s' % (n, code), data, start))
        if kind == 30:      # BF16: the upper half of a float32
            x = struct.unpack('<%df' % n,
                              struct.pack('<%dI' % n, *[v << 16 for v in x]))
        return list(x)
    if kind not in BLOCKS:
        sys.exit('reference.py: tensor type %d is not known here' % kind)
    per, size, unpack = BLOCKS[kind]
    out = []
    for at in range(start, start + n // per * size, size):
        out += unpack(data[at:at + size])
    return out


def fold(x, dims):
    """A flat list as nested lists; dims[0] runs fastest. Ones are no depth."""
    dims = [n for n in dims if n > 1] or [1]
    for n in dims[:-1]:
        x = [x[i:i + n] for i in range(0, len(x), n)]
    return x


class File:
    """Keys and tensors of a GGUF file. `used` are the tensors asked for."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        self.keys, self.records, self.loaded = {}, {}, {}
        self.at = 4
        _, n_tensors, n_keys = self.take('IQQ')
        for _ in range(n_keys):
            name = self.string()
            self.keys[name] = self.value(*self.take('I'))
        for _ in range(n_tensors):
            name = self.string()
            dims = self.take('%dQ' % self.take('I'))
            self.records[name] = (dims,) + self.take('IQ')
        align = self.keys.get('general.alignment', 32)
        self.start = (self.at + align - 1) // align * align

    def take(self, form):
        out = struct.unpack_from('<' + form, self.data, self.at)
        self.at += struct.calcsize('<' + form)
        return out

    def string(self):
        n, = self.take('Q')
        self.at += n
        return self.data[self.at - n:self.at].decode('utf-8', 'replace')

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            kind, n = self.take('IQ')
            return [self.value(kind) for _ in range(n)]
        return self.take(SCALARS[kind])[0]

    def tensor(self, name):
        """Nested lists; None if there is no such tensor."""
        if name not in self.loaded:
            x = None
            if name in self.records:
                dims, kind, offset = self.records[name]
                x = fold(values_of(self.data, kind, self.start + offset,
                                   math.prod(dims)), dims)
            self.loaded[name] = x
        return self.loaded[name]

    def unused(self):
        return [n for n in self.records if self.loaded.get(n) is None]


# ---- vectors ----

def dot(a, b):
    return sum(map(mul, a, b))


def times(matrix, x):
    """A matrix of one row or one column has lost that dimension in fold()."""
    if not isinstance(matrix[0], list):
        matrix = [matrix] if len(x) > 1 else [[w] for w in matrix]
    return [sum(map(mul, row, x)) for row in matrix]


def plus(a, b):
    return list(map(add, a, b))


def product(a, b):
    return list(map(mul, a, b))


def scaled(a, s):
    return [v * s for v in a]


def parts(x, n):
    """x cut into pieces of n."""
    return [x[i:i + n] for i in range(0, len(x), n)]


def joined(pieces):
    return [v for p in pieces for v in p]


def rms_norm(x, eps, w=None):
    s = 1 / math.sqrt(dot(x, x) / len(x) + eps)
    return product(scaled(x, s), w) if w else scaled(x, s)


def layer_norm(x, eps, w=None, b=None):
    mean = sum(x) / len(x)
    x = [v - mean for v in x]
    x = rms_norm(x, eps, w)
    return plus(x, b) if b else x


def softmax(x, *more):
    """`more` are logits that only take part in the sum."""
    top = max(x + list(more))
    e = [math.exp(v - top) for v in x]
    total = sum(e) + sum(math.exp(v - top) for v in more)
    return [v / total for v in e]


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * x *
                                    (1 + 0.044715 * x * x)))


def relu2(x):
    return max(x, 0.0) ** 2


def softplus(x):
    return math.log1p(math.exp(x)) if x < 30 else x


def swiglu(gate, up):
    return [silu(g) * u for g, u in zip(gate, up)]


def geglu(gate, up):
    return [gelu(g) * u for g, u in zip(gate, up)]


def clamped_swiglu(gate, up):
    out = []
    for g, u in zip(gate, up):
        g, u = min(g, 7.0), min(max(u, -7.0), 7.0)
        out.append(g * sigmoid(1.702 * g) * (u + 1))
    return out


# ---- architectures ----

# Where the norms of a layer stand: before and after attention, before and
# after the feed-forward network. `+`: both branches read the layer's input.
SHAPES = {
    'pre': ('attn_norm', None, 'ffn_norm', None),
    'sandwich': ('attn_norm', 'post_attention_norm',
                 'ffn_norm', 'post_ffw_norm'),
    'post': (None, 'post_attention_norm', None, 'post_ffw_norm'),
    'pre, odd name': ('attn_norm', None, 'post_attention_norm', None),
    'parallel-1': ('attn_norm', None, 'attn_norm', None),
    'parallel-2': ('attn_norm', None, 'ffn_norm', None),
    'parallel, attn_norm_2': ('attn_norm_2', None, 'attn_norm', None),
}


def every(n):
    """All but each n-th layer."""
    return lambda il, n_layer: il % n < n - 1


def if_64(il, n_layer):
    return n_layer == 64 and il % 4 < 3


def arch(norm, shape, rope, act=swiglu, **more):
    """
    norm      'rms' or 'ln'; bare: it has no weights
    rope      pairs are neighbours ('norm') or half a head apart ('neox')
    act       of gate and up; of up alone if it takes one number; fused: both
              lie in ffn_up
    qk        norm of queries and keys: 'rms head', 'rms row', 'ln head' (with
              weights of its own for each head), 'ln row'
    window    layers with a sliding window, w: its default width
    rotates   layers with rotation
    moe_norm  the weights of the chosen experts are scaled to the sum 1
    logits    'times' or 'over' logit_scale
    """
    a = dict(norm=norm, shape=shape, rope=rope, act=act, fused=False,
             bare=False, qk=None, window=None, w=0, rotates=None,
             moe_norm=False, gating=1, logits=None, alibi=0.0)
    assert not set(more) - set(a)
    return SimpleNamespace(**{**a, **more})


def alike(name, **changes):
    return SimpleNamespace(**{**vars(ARCHS[name]), **changes})


ARCHS = {
    'llama': arch('rms', 'pre', 'norm', moe_norm=True),
    'qwen2': arch('rms', 'pre', 'neox'),
    'qwen2moe': arch('rms', 'pre', 'neox'),
    'qwen3': arch('rms', 'pre', 'neox', qk='rms head'),
    'qwen3moe': arch('rms', 'pre', 'neox', qk='rms head', moe_norm=True),
    'gemma': arch('rms', 'pre', 'neox', geglu),
    'gemma2': arch('rms', 'sandwich', 'neox', geglu, window=every(2), w=4096),
    'gemma3': arch('rms', 'sandwich', 'neox', geglu, qk='rms head',
                   window=every(6)),
    'phi2': arch('ln', 'parallel-1', 'neox', gelu),
    'phi3': arch('rms', 'pre', 'neox', fused=True),
    'olmo': arch('ln', 'pre', 'norm', bare=True),
    'olmo2': arch('rms', 'post', 'neox', qk='rms row', window=every(4)),
    'olmoe': arch('rms', 'pre', 'neox', qk='rms row'),
    'stablelm': arch('ln', 'pre', 'neox', qk='ln head'),
    'starcoder2': arch('ln', 'pre', 'neox', gelu),
    'gpt2': arch('ln', 'pre', None, gelu),
    'gptneox': arch('ln', 'pre', 'neox', gelu),
    'falcon': arch('ln', 'parallel-1', 'neox', gelu),
    'baichuan': arch('rms', 'pre', 'norm'),
    'internlm2': arch('rms', 'pre', 'norm'),
    'chatglm': arch('rms', 'pre', 'norm', fused=True),
    'glm4': arch('rms', 'sandwich', 'norm', fused=True),
    'command-r': arch('ln', 'parallel-1', 'norm', qk='ln head',
                      logits='times'),
    'cohere2': arch('ln', 'parallel-1', 'norm', window=every(4),
                    rotates=every(4), logits='times'),
    'deepseek': arch('rms', 'pre', 'norm'),
    'deepseek2': arch('rms', 'pre', 'norm'),
    'exaone': arch('rms', 'pre', 'neox'),
    'exaone4': arch('rms', 'post', 'neox', qk='rms head', window=if_64,
                    w=4096),
    'bloom': arch('ln', 'pre', None, gelu, alibi=8.0),
    'mpt': arch('ln', 'pre', None, gelu, qk='ln row'),
    'nemotron': arch('ln', 'pre', 'neox', relu2),
    'gpt-oss': arch('rms', 'pre, odd name', 'neox', clamped_swiglu, gating=3,
                    window=every(2)),
    'mamba': arch('rms', 'pre', None),
    'rwkv6': arch('ln', 'pre', None),
    'rwkv7': arch('ln', 'pre', None),
}
ARCHS['mistral3'] = alike('llama')
ARCHS['smollm3'] = alike('llama', rotates=every(4))
ARCHS['granite'] = alike('llama', logits='over')
ARCHS['granitemoe'] = ARCHS['minicpm'] = ARCHS['granite']
ARCHS['starcoder'] = ARCHS['gpt2']


# ---- rotation ----

def yarn_ramp(p, r, base, c0, fast, slow):
    """1 where a pair turns fast and is left alone, 0 where it is slowed."""
    def turns(beta):
        return r * math.log(c0 / (2 * math.pi * beta)) / (2 * math.log(base))
    low = max(0, math.floor(turns(fast)))
    high = min(r - 1, math.ceil(turns(slow)))
    return 1 - min(max((p - low) / max(0.001, high - low), 0), 1)


class Rope:
    """Angles are the position times `speeds`; cos and sin are times m."""

    def __init__(self, speeds, m, kind):
        self.speeds, self.m, self.kind = speeds, m, kind

    def turn(self, x, pos):
        """x with its first values rotated; the others pass."""
        x, half = list(x), len(self.speeds)
        for p, speed in enumerate(self.speeds):
            a, b = (2 * p, 2 * p + 1) if self.kind == 'norm' else (p, p + half)
            c, s = math.cos(pos * speed), math.sin(pos * speed)
            x[a], x[b] = (self.m * (x[a] * c - x[b] * s),
                          self.m * (x[a] * s + x[b] * c))
        return x


def rope_speeds(r, base):
    return [base ** (-2 * p / r) for p in range(r // 2)]


# ---- the model ----

class Model:
    def __init__(self, path, n_ctx=None):
        self.file = File(path)
        self.name = self.file.keys['general.architecture']
        if self.name not in ARCHS:
            sys.exit("reference.py: architecture '%s' is not known here" %
                     self.name)
        self.arch = SimpleNamespace(**vars(ARCHS[self.name]))
        self.d = self.key('embedding_length')
        self.n_layer = self.key('block_count')
        self.n_ctx = n_ctx or min(self.key('context_length'), 4096)
        self.eps = self.key('attention.layer_norm_rms_epsilon') \
            if self.arch.norm == 'rms' else \
            self.key('attention.layer_norm_epsilon')
        self.state = [SimpleNamespace(k=[], v=[]) for _ in range(self.n_layer)]
        self.pos = 0
        if self.name == 'mamba':
            self.layer = self.mamba
        elif self.name in ('rwkv6', 'rwkv7'):
            self.layer = self.rwkv
        else:
            self.transformer()

    def key(self, name, default=None, layer=None):
        v = self.file.keys.get(self.name + '.' + name, default)
        if v is None:
            sys.exit("reference.py: key '%s.%s' is missing" % (self.name, name))
        return v[layer] if isinstance(v, list) and layer is not None else v

    def t(self, name, kind='weight'):
        return self.file.tensor(name + '.' + kind)

    def linear(self, name, x):
        y, b = times(self.t(name), x), self.t(name, 'bias')
        return plus(y, b) if b else y

    def norm(self, x, name):
        if name is None:
            return x
        w, b = self.t(name), self.t(name, 'bias')
        assert w or self.arch.bare, name
        if self.arch.norm == 'rms':
            return rms_norm(x, self.eps, w)
        return layer_norm(x, self.eps, w, b)

    # -- what a transformer decides once --

    def transformer(self):
        a, L = self.arch, self.n_layer
        self.layer = self.attend_and_feed
        self.hk = self.key('attention.key_length',
                           self.d // self.key('attention.head_count', layer=0))
        self.hv = self.key('attention.value_length',
                           self.d // self.key('attention.head_count', layer=0))
        if self.name == 'deepseek2':        # the sizes before absorption
            self.hk = self.key('attention.key_length_mla', self.hk)
            self.hv = self.key('attention.value_length_mla', self.hv)
        if self.name == 'stablelm' and not self.t('blk.0.ffn_norm'):
            a.shape = 'parallel-1'
        if self.name == 'gptneox' and self.key('use_parallel_residual'):
            a.shape = 'parallel-2'
        if self.name == 'falcon' and self.t('blk.0.attn_norm_2'):
            a.shape = 'parallel, attn_norm_2'
        if self.name == 'baichuan' and L != 32:
            a.rope, a.alibi = None, 8.0 if L == 40 else 0.0
        if self.name == 'mpt':
            a.alibi = self.key('attention.max_alibi_bias', 0.0)
        if self.name in ('granite', 'granitemoe', 'minicpm') and \
                not self.key('rope.scaling.finetuned', True):
            a.rope = None
        self.w = self.key('attention.sliding_window', a.w) if a.window else 0
        self.ropes()

    def ropes(self):
        r = self.key('rope.dimension_count', self.hk)
        base = self.key('rope.freq_base', 10000.0)
        kind = self.arch.rope
        if kind is None:
            return
        plain = rope_speeds(r, base)
        self.rope = Rope(*self.scaled_speeds(plain, r, base), kind)
        self.rope_window = self.rope
        if self.name in ('gemma3', 'olmo2'):
            base = self.key('rope.freq_base_swa',
                            10000.0 if self.name == 'gemma3' else base)
            self.rope_window = Rope(rope_speeds(r, base), 1, kind)

    def scaled_speeds(self, speeds, r, base):
        kind = self.key('rope.scaling.type', 'linear')
        s = self.key('rope.scaling.factor', self.key('rope.scale_linear', 0.0))
        c0 = self.key('rope.scaling.original_context_length',
                      self.key('context_length'))
        m = self.key('rope.scaling.attn_factor', 1.0)
        if s == 0 or kind == 'none':
            s = 1.0
        f = self.t('rope_freqs')
        if self.t('rope_factors_long'):
            f = self.t('rope_factors_long' if self.n_ctx > c0 else
                       'rope_factors_short')
        if f:
            speeds = [v / n for v, n in zip(speeds, f)]
        if kind != 'yarn':
            return [v / s for v in speeds], m
        own = self.name == 'mistral3'
        fast = self.key('rope.scaling.yarn_beta_fast', 32.0) if own else 32.0
        slow = self.key('rope.scaling.yarn_beta_slow', 1.0) if own else 1.0
        out = []
        for p, v in enumerate(speeds):
            ramp = yarn_ramp(p, r, base, c0, fast, slow)
            out.append(v / s * (1 - ramp) + v * ramp)
        if self.name != 'deepseek2':
            m *= 1 + 0.1 * math.log(s)
        if own:
            ylm = self.key('rope.scaling.yarn_log_multiplier', 0.0)
            m /= 1 + 0.1 * ylm * math.log(s)
        return out, m

    def windowed(self, il):
        """Whether this layer has a sliding window."""
        pattern = self.key('attention.sliding_window_pattern', 0)
        if not self.w or not self.arch.window:
            return False
        if isinstance(pattern, list):
            return pattern[il]
        if pattern:
            return il % pattern < pattern - 1
        return self.arch.window(il, self.n_layer)

    def rotates(self, il):
        if self.arch.rope is None:
            return False
        if self.name == 'exaone4':
            return self.n_layer != 64 or self.windowed(il)
        if self.name == 'cohere2':
            return self.windowed(il)
        return self.arch.rotates is None or self.arch.rotates(il, self.n_layer)

    def score_scale(self):
        name, L = self.name, self.n_layer
        if (name, L) in (('gemma2', 46), ('gemma3', 62)):
            return 1 / math.sqrt(self.d / self.key('attention.head_count'))
        if name in ('granite', 'granitemoe'):
            return self.key('attention.scale', 0.0) or 1 / math.sqrt(self.hk)
        if name == 'deepseek2' and self.key('rope.scaling.factor', 0.0):
            ylm = self.key('rope.scaling.yarn_log_multiplier', 0.0)
            s = self.key('rope.scaling.factor')
            return (1 + ylm * math.log(s)) ** 2 / math.sqrt(self.hk)
        return 1 / math.sqrt(self.hk)

    # -- attention --

    def project(self, il, x):
        """Flat q, k, v; they may lie in one tensor, with or without biases."""
        blk = 'blk.%d.' % il
        n_q = self.key('attention.head_count', layer=il) * self.hk
        n_k = self.kv_heads(il) * self.hk
        if self.t(blk + 'attn_qkv') is None:
            out = [self.linear(blk + 'attn_' + c, x) for c in 'qkv']
        else:
            y = self.linear(blk + 'attn_qkv', x)
            out = [y[:n_q], y[n_q:n_q + n_k], y[n_q + n_k:]]
            for i, c in enumerate('qkv'):
                b = self.t(blk + 'attn_' + c, 'bias')
                out[i] = plus(out[i], b) if b else out[i]
        limit = self.key('attention.clamp_kqv', 0.0)
        if limit:
            out = [[min(max(v, -limit), limit) for v in y] for y in out]
        return out

    def kv_heads(self, il):
        return self.key('attention.head_count_kv',
                        self.key('attention.head_count'), il)

    def qk_norm(self, x, name):
        """The heads of x, normalised as this architecture does."""
        kind, w, b = self.arch.qk, self.t(name), self.t(name, 'bias')
        if kind is None or (w is None and kind[:2] == 'ln'):
            return parts(x, self.hk)
        if kind == 'rms row':
            return parts(rms_norm(x, self.eps, w), self.hk)
        if kind == 'ln row':
            return parts(layer_norm(x, self.eps, w, b), self.hk)
        heads = parts(x, self.hk)
        if kind == 'rms head':
            return [rms_norm(h, self.eps, w) for h in heads]
        if len(heads) == 1:     # fold() has dropped the dimension
            w = [w]
        return [layer_norm(h, self.eps, wh) for h, wh in zip(heads, w)]

    def heads(self, il, x):
        """Lists of query, key and value heads, ready for the scores."""
        blk = 'blk.%d.' % il
        q, k, v = self.project(il, x)
        q = self.qk_norm(q, blk + 'attn_q_norm')
        k = self.qk_norm(k, blk + 'attn_k_norm')
        if self.rotates(il):
            rope = self.rope_window if self.windowed(il) else self.rope
            q = [rope.turn(h, self.pos) for h in q]
            k = [rope.turn(h, self.pos) for h in k]
        tau = self.key('attention.temperature_scale', 0.0)
        if self.name == 'mistral3' and tau:
            c0 = self.key('rope.scaling.original_context_length',
                          self.key('context_length'))
            q = [scaled(h, 1 + tau * math.log(self.pos // c0 + 1)) for h in q]
        return q, k, parts(v, self.hv)

    def latent_heads(self, il, x):
        """deepseek2: the keys and values of all heads from one vector."""
        blk, n_head = 'blk.%d.' % il, self.key('attention.head_count')
        r = self.key('rope.dimension_count')
        n = self.hk - r
        if self.t(blk + 'attn_q_a'):
            q = self.norm(self.linear(blk + 'attn_q_a', x),
                          blk + 'attn_q_a_norm')
            q = self.linear(blk + 'attn_q_b', q)
        else:
            q = self.linear(blk + 'attn_q', x)
        q = [h[:n] + self.rope.turn(h[n:], self.pos) for h in parts(q, self.hk)]
        low = self.linear(blk + 'attn_kv_a_mqa', x)
        k_pe = self.rope.turn(low[-r:], self.pos)
        low = self.norm(low[:-r], blk + 'attn_kv_a_norm')
        if self.t(blk + 'attn_kv_b'):
            kv = parts(self.linear(blk + 'attn_kv_b', low), n + self.hv)
            k, v = [h[:n] for h in kv], [h[n:] for h in kv]
        else:       # k_b maps a key to the short vector: its transpose is used
            k = [times([list(c) for c in zip(*m)], low)
                 for m in self.t(blk + 'attn_k_b')]
            v = [times(m, low) for m in self.t(blk + 'attn_v_b')]
        assert len(k) == len(v) == n_head
        return q, [h + k_pe for h in k], v

    def alibi_slope(self, h, n_head):
        n2, bias = 2 ** int(math.log2(n_head)), self.arch.alibi
        if h < n2:
            return 2 ** (-bias * (h + 1) / n2)
        return 2 ** (-bias / 2 * (2 * (h - n2) + 1) / n2)

    def attention(self, il, x):
        latent = self.name == 'deepseek2'
        q, k, v = self.latent_heads(il, x) if latent else self.heads(il, x)
        s = self.state[il]
        s.k.append(k)
        s.v.append(v)
        first = max(0, self.pos - self.w + 1) if self.windowed(il) else 0
        group = len(q) // len(k)
        out = [self.head(il, h, q[h], len(q),
                         [k[h // group] for k in s.k[first:]],
                         [v[h // group] for v in s.v[first:]])
               for h in range(len(q))]
        return self.linear('blk.%d.attn_output' % il, joined(out))

    def head(self, il, h, q, n_head, keys, values):
        c = self.score_scale()
        score = [dot(q, k) * c for k in keys]
        cap = self.key('attn_logit_softcapping', 50.0) \
            if self.name == 'gemma2' else 0
        if cap:
            score = [cap * math.tanh(v / cap) for v in score]
        if self.arch.alibi:
            slope = self.alibi_slope(h, n_head)
            score = [v - slope * (len(keys) - 1 - j)
                     for j, v in enumerate(score)]
        sinks = self.t('blk.%d.attn_sinks' % il)
        p = softmax(score, *([sinks[h]] if sinks else []))
        return [dot(p, column) for column in zip(*values)]

    # -- feed-forward --

    def feed(self, il, x):
        blk = 'blk.%d.' % il
        if self.key('expert_count', 0) and \
                il >= self.key('leading_dense_block_count', 0):
            return self.experts(il, x)
        up = self.linear(blk + 'ffn_up', x)
        if self.arch.fused:
            half = len(up) // 2
            y = self.arch.act(up[:half], up[half:])
        elif self.t(blk + 'ffn_gate'):
            y = self.arch.act(self.linear(blk + 'ffn_gate', x), up)
        else:
            y = [self.arch.act(v) for v in up]
        scales = self.file.tensor(blk + 'ffn_act.scales')
        if scales:
            y = [v / s for v, s in zip(y, scales)]
        return self.linear(blk + 'ffn_down', y)

    def expert(self, blk, name, e, x):
        all_of = blk + name + '_exps'
        w, b = self.t(all_of), self.t(all_of, 'bias')
        if w is None:       # old files: a tensor for each
            return times(self.t('%s%s.%d' % (blk, name, e)), x)
        y = times(w[e], x)
        return plus(y, b[e]) if b else y

    def expert_feed(self, blk, e, x):
        if self.t(blk + 'ffn_gate_up_exps'):
            y = self.expert(blk, 'ffn_gate_up', e, x)
            gate, up = y[:len(y) // 2], y[len(y) // 2:]
        else:
            gate = self.expert(blk, 'ffn_gate', e, x)
            up = self.expert(blk, 'ffn_up', e, x)
        return self.expert(blk, 'ffn_down', e, self.arch.act(gate, up))

    def best_groups(self, choice):
        """Values for choosing, those of weak groups made impossible."""
        n = self.key('expert_group_count', 0)
        n_used = self.key('expert_group_used_count', 0)
        if n <= 1 or not n_used:
            return choice
        groups = parts(choice, len(choice) // n)
        rank = [sum(sorted(g)[-2:]) for g in groups]
        keep = sorted(range(n), key=lambda g: (-rank[g], g))[:n_used]
        return joined(g if i in keep else [-math.inf] * len(g)
                      for i, g in enumerate(groups))

    def route(self, blk, x):
        """[(expert, weight)] of those that are used."""
        logits = self.linear(blk + 'ffn_gate_inp', x)
        gating = self.key('expert_gating_func', 0) or self.arch.gating
        p = {1: softmax(logits), 2: [sigmoid(v) for v in logits],
             3: logits}[gating]
        bias = self.t(blk + 'exp_probs_b', 'bias')
        choice = self.best_groups(plus(p, bias) if bias else p)
        chosen = sorted(range(len(p)), key=lambda e: (-choice[e], e))
        chosen = chosen[:self.key('expert_used_count')]
        w = [p[e] for e in chosen]
        if gating == 3:
            w = softmax(w)
        if self.key('expert_weights_norm', self.arch.moe_norm):
            w = scaled(w, 1 / max(sum(w), 6.1e-5))
        w = scaled(w, self.key('expert_weights_scale', 0.0) or 1.0)
        return list(zip(chosen, w))

    def experts(self, il, x):
        blk, y = 'blk.%d.' % il, [0.0] * self.d
        for e, w in self.route(blk, x):
            y = plus(y, scaled(self.expert_feed(blk, e, x), w))
        if self.t(blk + 'ffn_up_shexp'):
            h = self.arch.act(self.linear(blk + 'ffn_gate_shexp', x),
                              self.linear(blk + 'ffn_up_shexp', x))
            h = self.linear(blk + 'ffn_down_shexp', h)
            gate = self.t(blk + 'ffn_gate_inp_shexp')
            y = plus(y, scaled(h, sigmoid(dot(gate, x))) if gate else h)
        return y

    # -- layers --

    def attend_and_feed(self, il, x):
        blk, scale = 'blk.%d.' % il, 1.0
        if self.arch.logits == 'over':      # granite, minicpm
            scale = self.key('residual_scale', 0.0) or 1.0
        n1, n2, n3, n4 = [n and blk + n for n in SHAPES[self.arch.shape]]

        def attention(x):
            y = self.attention(il, self.norm(x, n1))
            return scaled(self.norm(y, n2), scale)

        def feed(x):
            return scaled(self.norm(self.feed(il, self.norm(x, n3)), n4), scale)

        if 'parallel' in self.arch.shape:
            return plus(x, plus(attention(x), feed(x)))
        x = plus(x, attention(x))
        return plus(x, feed(x))

    def mamba(self, il, x):
        blk, s = 'blk.%d.' % il, self.state[il]
        n, dr = self.key('ssm.state_size'), self.key('ssm.time_step_rank')
        di, dc = self.key('ssm.inner_size'), self.key('ssm.conv_kernel')
        if not s.k:         # the last inputs of the convolution, and the state
            s.k, s.v = [[0.0] * di] * dc, [[0.0] * n] * di
        y = self.linear(blk + 'ssm_in', self.norm(x, blk + 'attn_norm'))
        s.k, z = s.k[1:] + [y[:di]], y[di:]
        u = [silu(b + dot(w, past)) for w, b, past in
             zip(self.t(blk + 'ssm_conv1d'), self.t(blk + 'ssm_conv1d', 'bias'),
                 zip(*s.k))]
        y = self.linear(blk + 'ssm_x', u)
        small = [y[:dr], y[dr:dr + n], y[dr + n:]]
        if self.key('ssm.dt_b_c_rms', False):
            small = [rms_norm(v, self.eps) for v in small]
        delta, b, c = small
        delta = [softplus(v) for v in self.linear(blk + 'ssm_dt', delta)]
        s.v = [[math.exp(dl * ai) * hi + dl * uc * bi
                for ai, hi, bi in zip(a, h, b)]
               for a, h, dl, uc in
               zip(self.file.tensor(blk + 'ssm_a'), s.v, delta, u)]
        y = [dot(h, c) + dc * uc for h, dc, uc in
             zip(s.v, self.file.tensor(blk + 'ssm_d'), u)]
        y = [v * silu(g) for v, g in zip(y, z)]
        return plus(x, self.linear(blk + 'ssm_out', y))

    def rwkv(self, il, x):
        blk, s = 'blk.%d.' % il, self.state[il]
        size = self.key('wkv.head_size')
        if not s.k:         # the inputs of the two mixers one token earlier
            s.k = [[0.0] * self.d] * 2
            s.v = [[[0.0] * size] * size] * (self.d // size)
        h = self.norm(x, blk + 'attn_norm')
        mix = self.time_mix_6 if self.name == 'rwkv6' else self.time_mix_7
        x = plus(x, mix(il, h, [b - a for a, b in zip(h, s.k[0])]))
        h2 = self.norm(x, blk + 'attn_norm_2')
        x = plus(x, self.channel_mix(blk, h2,
                                     [b - a for a, b in zip(h2, s.k[1])]))
        s.k = [h, h2]
        every_n = self.key('rescale_every_n_layers', 0)
        if every_n and (il + 1) % every_n == 0:
            x = scaled(x, 0.5)
        return x

    def channel_mix(self, blk, h, delta):
        blk += 'channel_mix_'
        x_k = plus(h, product(delta, self.t(blk + 'lerp_k')))
        k = [relu2(v) for v in self.linear(blk + 'key', x_k)]
        y = self.linear(blk + 'value', k)
        if self.name == 'rwkv7':
            return y
        x_r = plus(h, product(delta, self.t(blk + 'lerp_r')))
        r = [sigmoid(v) for v in self.linear(blk + 'receptance', x_r)]
        return product(r, y)

    def wkv_norm(self, blk, o):
        """Each head normalised by itself."""
        y = joined(layer_norm(h, 64e-5) for h in o)
        return plus(product(y, self.t(blk + 'ln')), self.t(blk + 'ln', 'bias'))

    def time_mix_6(self, il, h, delta):
        blk, s = 'blk.%d.time_mix_' % il, self.state[il]
        size = self.key('wkv.head_size')
        z = self.linear(blk + 'w1', plus(h, product(delta,
                                                    self.t(blk + 'lerp_x'))))
        z = parts([math.tanh(v) for v in z], len(z) // 5)
        lerp = self.t(blk + 'lerp_fused') or \
            [self.t(blk + 'lerp_' + c) for c in 'wkvrg']
        x_w, x_k, x_v, x_r, x_g = [
            plus(h, product(delta, plus(lerp[c],
                                        times(self.t(blk + 'w2')[c], z[c]))))
            for c in range(5)]
        r = parts(self.linear(blk + 'receptance', x_r), size)
        k = parts(self.linear(blk + 'key', x_k), size)
        v = parts(self.linear(blk + 'value', x_v), size)
        gate = [silu(n) for n in self.linear(blk + 'gate', x_g)]
        w = [math.tanh(n) for n in self.linear(blk + 'decay_w1', x_w)]
        w = plus(self.t(blk + 'decay'), self.linear(blk + 'decay_w2', w))
        w = parts([math.exp(-math.exp(n)) for n in w], size)
        first, o = self.t(blk + 'first'), []
        if not isinstance(first[0], list):
            first = [first]
        for i, m in enumerate(s.v):
            kv = [scaled(v[i], n) for n in k[i]]
            now = [plus(row, scaled(new, u))
                   for row, new, u in zip(m, kv, first[i])]
            o.append([dot(r[i], column) for column in zip(*now)])
            s.v[i] = [plus(scaled(row, n), new)
                      for row, new, n in zip(m, kv, w[i])]
        return self.linear(blk + 'output', product(self.wkv_norm(blk, o), gate))

    def time_mix_7(self, il, h, delta):
        blk, s = 'blk.%d.time_mix_' % il, self.state[il]
        size = self.key('wkv.head_size')
        x_r, x_w, x_k, x_v, x_a, x_g = [
            plus(h, product(delta, c)) for c in self.t(blk + 'lerp_fused')]
        low = [math.tanh(n) for n in times(self.t(blk + 'w1'), x_w)]
        w = plus(self.t(blk + 'w0'), times(self.t(blk + 'w2'), low))
        w = [math.exp(-0.606531 * sigmoid(n)) for n in w]
        v = self.linear(blk + 'value', x_v)
        if il == 0:
            self.v_first = v
        else:
            low = times(self.t(blk + 'v1'), x_v)
            mix = plus(self.t(blk + 'v0'), times(self.t(blk + 'v2'), low))
            v = [a + (b - a) * sigmoid(n)
                 for a, b, n in zip(v, self.v_first, mix)]
        g = [sigmoid(n) for n in times(self.t(blk + 'g1'), x_g)]
        g = times(self.t(blk + 'g2'), g)
        low = times(self.t(blk + 'a1'), x_a)
        a = plus(self.t(blk + 'a0'), times(self.t(blk + 'a2'), low))
        a = [sigmoid(n) for n in a]
        r = self.linear(blk + 'receptance', x_r)
        k = self.linear(blk + 'key', x_k)
        kappa = parts(product(k, self.t(blk + 'k_k')), size)
        kappa = joined(scaled(c, 1 / max(math.sqrt(dot(c, c)), 1e-12))
                       for c in kappa)
        k = [n + n * c * (b - 1) for n, c, b in zip(k, self.t(blk + 'k_a'), a)]
        r_k, o = joined(self.t(blk + 'r_k')) \
            if isinstance(self.t(blk + 'r_k')[0], list) \
            else self.t(blk + 'r_k'), []
        bonus = []
        for i, m in enumerate(s.v):     # m: a row for each value
            at = slice(i * size, (i + 1) * size)
            remove = [-dot(row, kappa[at]) for row in m]
            write = product(kappa[at], a[at])
            s.v[i] = [[c * wj + rm * wr + vi * kj for c, wj, wr, kj in
                       zip(row, w[at], write, k[at])]
                      for row, rm, vi in zip(m, remove, v[at])]
            o.append([dot(row, r[at]) for row in s.v[i]])
            weight = dot(k[at], product(r[at], r_k[at]))
            bonus += scaled(v[at], weight)
        y = plus(self.wkv_norm(blk, o), bonus)
        return self.linear(blk + 'output', product(y, g))

    # -- from a token to logits --

    def embed(self, token):
        x = self.t('token_embd')[token]
        if self.name in ('gemma', 'gemma2', 'gemma3'):
            x = scaled(x, math.sqrt(self.d))
        if self.name in ('granite', 'granitemoe', 'minicpm'):
            x = scaled(x, self.key('embedding_scale', 0.0) or 1.0)
        if self.t('position_embd'):
            x = plus(x, self.t('position_embd')[self.pos])
        if self.t('token_embd_norm'):
            x = self.norm(x, 'token_embd_norm')
        return x

    def step(self, token):
        """The logits after one more token."""
        x = self.embed(token)
        for il in range(self.n_layer):
            x = self.layer(il, x)
        self.pos += 1
        x = self.norm(x, 'output_norm')
        name = 'output' if self.t('output') else 'token_embd'
        y = times(self.t(name), x)
        if self.t('output', 'bias'):
            y = plus(y, self.t('output', 'bias'))
        if self.arch.logits:
            scale = self.key('logit_scale')
            y = scaled(y, scale if self.arch.logits == 'times' else 1 / scale)
        cap = self.key('final_logit_softcapping',
                       30.0 if self.name == 'gemma2' else 0.0)
        if cap and self.name in ('gemma2', 'gemma3'):
            y = [cap * math.tanh(v / cap) for v in y]
        return y


# ---- commands ----

def read_stream(data):
    """(id, logits) of the first sequence of a binary logits stream."""
    n_vocab, n_eog = struct.unpack_from('<II', data, 8)
    at, out = 16 + 4 * n_eog, []
    while at < len(data):
        token, flags = struct.unpack_from('<iI', data, at)
        if token < 0:
            break
        n = n_vocab if flags & 1 else 0
        out.append((token, struct.unpack_from('<%df' % n, data, at + 8)))
        at += 8 + 4 * n
    return out


def report(got, want, tolerance):
    if not got or len(got) != len(want):
        print('%d logits instead of %d' % (len(got), len(want)))
        return 1
    worst = 0.0
    for a, b in zip(got, want):
        diff = abs(a - b)
        worst = diff if not diff <= worst else worst    # a NaN stays
    print('largest difference %.2g in %d logits' % (worst, len(got)))
    return 0 if worst <= tolerance else 1


def check(model, stream, tolerance):
    got, want = [], []
    for token, row in read_stream(stream):
        got += row
        want += model.step(token)
    return report(got, want, tolerance)


def trust(place):
    status = 0
    with open(place + '/MANIFEST.tsv') as f:
        rows = [line.split('\t') for line in f][1:]
    for name, _, _, n_ctx, *_ in rows:
        print(name, end=': ')
        model = Model('%s/%s.gguf' % (place, name), int(n_ctx))
        with open('%s/%s.tokens' % (place, name)) as f:
            got = joined(model.step(int(w)) for w in f.readline().split())
        with open('%s/%s.f32' % (place, name), 'rb') as f:
            data = f.read()
        want = struct.unpack('<%df' % (len(data) // 4), data)
        status |= report(got, want, 1e-4)
    return status


def logits(model, ids):
    for token in ids:
        row = model.step(token)
        sys.stdout.buffer.write(struct.pack('<%df' % len(row), *row))
    # what the formulas do not use, they do not describe
    for name in model.file.unused():
        if not name.startswith('rope_factors'):
            print('reference.py: tensor not used:', name, file=sys.stderr)


def main(args):
    if args == ['cases']:
        import refcases
        print('\n'.join(refcases.CASES))
        return 0
    if len(args) >= 3 and args[0] == 'make':
        import refcases
        refcases.make(args[1], args[2], [a.split('=', 1) for a in args[3:]])
        return 0
    if len(args) == 2 and args[0] == 'trust':
        return trust(args[1])
    if len(args) < 2 or args[0] not in ('logits', 'check') or len(args) % 2:
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    options = dict(zip(args[2::2], args[3::2]))
    model = Model(args[1], int(options.get('-c', 0)))
    if args[0] == 'check':
        return check(model, sys.stdin.buffer.read(),
                     float(options.get('-t', 1e-3)))
    logits(model, [int(w) for w in sys.stdin.readline().split()])
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
