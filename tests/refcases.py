# SPDX-License-Identifier: MIT
"""Tiny random models, one for each architecture and option that the forward
pass has to know. The numbers are odd (eps, bases, windows, scales), so that a
default in place of what the file says shows in the logits.

    CASES[name]() builds one; make(name, path) writes it, if wanted with
    changes: keys and their values, or tensors and their dimensions, in JSON;
    without one where that is empty.
"""
import json
import math
import random
import struct

VOCAB = 80
TOKENIZER = {
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>'] +
                             ['t%d' % i for i in range(3, VOCAB)],
    'tokenizer.ggml.scores': [0.0] * VOCAB,
    'tokenizer.ggml.token_type': [2, 3, 3] + [1] * (VOCAB - 3)}
FLOAT = {'F32': (0, 'f'), 'F16': (1, 'e')}


# ---- GGUF ----

def string(s):
    b = s.encode()
    return struct.pack('<Q', len(b)) + b


def value(v):
    """Type and bytes of a key's value."""
    if isinstance(v, bool):
        return 7, struct.pack('<?', v)
    if isinstance(v, int):
        return 4, struct.pack('<I', v)
    if isinstance(v, float):
        return 6, struct.pack('<f', v)
    if isinstance(v, str):
        return 8, string(v)
    kind = value(v[0])[0]
    return 9, struct.pack('<IQ', kind, len(v)) + \
        b''.join(value(n)[1] for n in v)


def mxfp4(x):
    """Blocks of 32; any scale that fits will do for random numbers."""
    steps, out = (0, 1, 2, 3, 4, 6, 8, 12), b''
    for i in range(0, len(x), 32):
        block = x[i:i + 32]
        e = math.floor(math.log2(max(map(abs, block)))) - 2 + 127
        codes = [min(range(8), key=lambda c: abs(steps[c] * 2.0 ** (e - 128) -
                                                 abs(v))) | (v < 0) << 3
                 for v in block]
        out += bytes([e] + [a | b << 4 for a, b in zip(codes, codes[16:])])
    return out


def packed(x, kind):
    """Type id and bytes of a tensor."""
    if kind == 'MXFP4':
        return 39, mxfp4(x)
    if kind == 'BF16':      # cut, not rounded
        return 30, b''.join(struct.pack('<f', v)[2:] for v in x)
    type_id, code = FLOAT[kind]
    return type_id, struct.pack('<%d%s' % (len(x), code), *x)


def pad(data):
    return data + bytes(-len(data) % 32)


class Case:
    """The keys and tensors of a model that is being made."""

    def __init__(self, arch, **keys):
        self.arch, self.tensors = arch, {}
        self.keys = {'general.architecture': arch}
        self.random = random.Random(arch)
        self.kind = 'F16'
        self.set(vocab_size=VOCAB, context_length=512, **keys)

    def set(self, **keys):
        """Keys of the architecture; __ stands for a dot."""
        for k, v in keys.items():
            self.keys['%s.%s' % (self.arch, k.replace('__', '.'))] = v
        return self

    def get(self, name):
        return self.keys['%s.%s' % (self.arch, name)]

    def matrix(self, name, n_in, n_out, *more, gain=1.0, kind=None):
        """Outputs are about gain times as large as inputs."""
        n, s = n_in * n_out * math.prod(more), gain / math.sqrt(n_in)
        self.tensors[name + '.weight'] = (
            (n_in, n_out) + more, kind or self.kind,
            [self.random.gauss(0, s) for _ in range(n)])

    def vector(self, name, *dims, mean=0.0, spread=0.3):
        self.tensors[name] = (dims, 'F32', [
            self.random.uniform(mean - spread, mean + spread)
            for _ in range(math.prod(dims))])

    def norm(self, name, *dims, bias=False):
        self.vector(name + '.weight', *dims, mean=1.0, spread=0.4)
        if bias:
            self.vector(name + '.bias', *dims)

    def linear(self, name, n_in, n_out, bias=False, gain=1.0):
        self.matrix(name, n_in, n_out, gain=gain)
        if bias:
            self.vector(name + '.bias', n_out)

    def write(self, path):
        head = struct.pack('<4sIQQ', b'GGUF', 3, len(self.tensors),
                           len(self.keys) + len(TOKENIZER))
        for k, v in {**self.keys, **TOKENIZER}.items():
            kind, data = value(v)
            head += string(k) + struct.pack('<I', kind) + data
        body = b''
        for name, (dims, kind, x) in self.tensors.items():
            type_id, data = packed(x, kind)
            head += string(name) + struct.pack(
                '<I%dQIQ' % len(dims), len(dims), *dims, type_id, len(body))
            body += pad(data)
        with open(path, 'wb') as f:
            f.write(pad(head) + body)


# ---- the transformer ----

def of_layer(v, il):
    return v[il] if isinstance(v, list) else v


def qkv(m, blk, il, o):
    d, hk, hv = o['d'], o['hk'], o['hv'] or o['hk']
    n_head, n_kv = of_layer(o['H'], il), of_layer(o['K'], il)
    sizes = (n_head * hk, n_kv * hk, n_kv * hv)
    bias = 'qkv' in o['bias']
    if o['qkv'] == 'fused':
        m.linear(blk + 'attn_qkv', d, sum(sizes), bias, gain=1.3)
    elif o['qkv'] == 'fused, biases apart':
        m.matrix(blk + 'attn_qkv', d, sum(sizes), gain=1.3)
        for c, n in zip('qkv', sizes):
            m.vector(blk + 'attn_%s.bias' % c, n)
    else:
        for c, n in zip('qkv', sizes):
            m.linear(blk + 'attn_' + c, d, n, bias, gain=1.3)
    m.linear(blk + 'attn_output', n_head * hv, d, 'o' in o['bias'], gain=1.5)
    dims = {'head': ((hk,), (hk,)), 'row': ((n_head * hk,), (n_kv * hk,)),
            'row, bias': ((n_head * hk,), (n_kv * hk,)),
            'each': ((hk, n_head), (hk, n_kv))}.get(o['qk'], ())
    for c, n in zip('qk', dims):
        m.norm(blk + 'attn_%s_norm' % c, *n, bias=o['qk'] == 'row, bias')


def feed(m, blk, il, o):
    d, f, bias = o['d'], of_layer(o['f'], il), 'f' in o['bias']
    if o['ffn'] == 'gated':
        m.linear(blk + 'ffn_gate', d, f, bias)
    m.linear(blk + 'ffn_up', d, 2 * f if o['ffn'] == 'fused' else f, bias,
             gain=1.3)
    m.linear(blk + 'ffn_down', f, d, bias, gain=1.5)


def experts(m, blk, o, form='', kind=None, shared=0, gate=False, bias=False):
    """form: '', 'gate_up' (one tensor for both) or 'apart' (one an expert)."""
    d, f, n = o['d'], o['fe'], m.get('expert_count')
    m.matrix(blk + 'ffn_gate_inp', d, n, kind='F32', gain=1.5)
    shapes = {'gate': (d, f), 'up': (d, f), 'down': (f, d)}
    if form == 'gate_up':
        shapes = {'gate_up': (d, 2 * f), 'down': (f, d)}
    for name, (n_in, n_out) in shapes.items():
        if form == 'apart':
            for e in range(n):
                m.matrix('%sffn_%s.%d' % (blk, name, e), n_in, n_out, gain=1.5)
            continue
        name = blk + 'ffn_%s_exps' % name
        m.matrix(name, n_in, n_out, n, gain=1.5, kind=kind)
        if bias:
            m.vector(name + '.bias', n_out, n)
    if bias:
        m.vector(blk + 'ffn_gate_inp.bias', n)
    if shared:
        m.linear(blk + 'ffn_gate_shexp', d, shared)
        m.linear(blk + 'ffn_up_shexp', d, shared)
        m.linear(blk + 'ffn_down_shexp', shared, d)
    if gate:
        m.vector(blk + 'ffn_gate_inp_shexp.weight', d)


PRE = ('attn_norm', 'ffn_norm')
POST = ('post_attention_norm', 'post_ffw_norm')
DEFAULTS = dict(
    d=32, L=2, H=4, K=2, hk=8, hv=0, f=40, fe=24,
    norm='rms', norms=PRE, bare=False, bias='', qkv='split', qk=None,
    ffn='gated', experts=None, dense=0, tied=False, embd=1.0, logits=2.0,
    kind='F16', attention=qkv)


def transformer(arch, keys=None, **options):
    """
    norms    those of a layer; 'ln' has biases too, 'ln, no bias' has not
    bias     which linear maps have one: 'qkv', 'o', 'f' (all of ffn)
    experts  arguments of experts(), from layer `dense` on
    embd     size of the embeddings; logits: of the output
    """
    assert not set(options) - set(DEFAULTS)
    o = {**DEFAULTS, **options}
    m = Case(arch, embedding_length=o['d'], block_count=o['L'],
             feed_forward_length=o['f'], attention__head_count=o['H'],
             attention__head_count_kv=o['K'])
    m.kind = o['kind']
    eps = 'layer_norm_rms_epsilon' if o['norm'] == 'rms' else \
        'layer_norm_epsilon'
    m.set(**{'attention__' + eps: 0.02}, **(keys or {}))
    if isinstance(o['H'], list) or o['hk'] * o['H'] != o['d'] or o['hv']:
        m.set(attention__key_length=o['hk'],
              attention__value_length=o['hv'] or o['hk'])
        m.set(**{k: v for k, v in (keys or {}).items() if '_length' in k})
    m.matrix('token_embd', o['d'], VOCAB,
             gain=o['logits'] if o['tied'] else o['embd'] * math.sqrt(o['d']))
    bias = o['norm'] == 'ln'
    for il in range(o['L']):
        blk = 'blk.%d.' % il
        for name in o['norms'] if not o['bare'] else ():
            m.norm(blk + name, o['d'], bias=bias)
        o['attention'](m, blk, il, o)
        if o['experts'] is not None and il >= o['dense']:
            experts(m, blk, o, **o['experts'])
        else:
            feed(m, blk, il, o)
    if not o['bare']:
        m.norm('output_norm', o['d'], bias=bias)
    if not o['tied']:
        m.matrix('output', o['d'], VOCAB, gain=o['logits'])
    return m


def layers(m):
    return ['blk.%d.' % il for il in range(m.get('block_count'))]


CASES = {}


def case(name):
    """Registers the function below as this case."""
    def register(f):
        CASES[name] = f
        return f
    return register


def plain(name, arch, keys=None, **options):
    """A case with nothing but options of transformer()."""
    CASES[name] = lambda: transformer(arch, keys, **options)


def make(name, path, changes=()):
    m = CASES[name]()
    for k, v in changes:
        m.keys.pop(k, None)
        m.tensors.pop(k, None)
        if v and k.endswith(('.weight', '.bias')):
            m.vector(k, *json.loads(v))
        elif v:
            m.keys[k] = json.loads(v)
    m.write(path)


# ---- llama and what is almost llama ----

BASE = dict(rope__freq_base=700.0)
LONG = dict(rope__freq_base=700.0, rope__scaling__type='longrope',
            rope__scaling__attn_factor=1.2)
YARN = dict(rope__freq_base=100.0, rope__scaling__type='yarn',
            rope__scaling__factor=4.0,
            rope__scaling__original_context_length=64,
            rope__scaling__attn_factor=0.9)

plain('llama-qkv', 'llama', BASE, qkv='fused', bias='qkv', hk=12, hv=16)
plain('llama-qkv-biases-apart', 'llama', qkv='fused, biases apart')
plain('llama-bf16', 'llama', kind='BF16', bias='qkv o f', tied=True)
plain('llama-arrays', 'llama', dict(rope__freq_base=500.0), L=3,
      H=[4, 2, 6], K=[2, 1, 3], f=[32, 48, 24])
plain('llama-scale-linear', 'llama', dict(rope__scale_linear=3.0))
plain('llama-scaling-none', 'llama', dict(rope__scaling__type='none',
                                          rope__scaling__factor=3.0))
plain('llama-attn-factor', 'llama', dict(
    rope__scaling__type='linear', rope__scaling__factor=2.5,
    rope__scaling__attn_factor=1.25))
MOE = dict(expert_count=4, expert_used_count=2)
plain('llama-experts-apart', 'llama', MOE, f=24,
      experts=dict(form='apart'))
plain('llama-experts-gate-up', 'llama', MOE,
      f=24, experts=dict(form='gate_up'))


def long_tables(m, r):
    m.vector('rope_factors_long.weight', r // 2, mean=6.0, spread=4.0)
    m.vector('rope_factors_short.weight', r // 2, mean=1.5, spread=0.5)
    return m


@case('llama-longrope')
def _():        # the context is the original one: the short table
    return long_tables(transformer('llama', {
        **LONG, 'rope__scaling__original_context_length': 512}), 8)


@case('minicpm-longrope')
def _():        # and the long table
    return long_tables(transformer('minicpm', {
        **LONG, 'rope__scaling__original_context_length': 256,
        'embedding_scale': 9.0, 'residual_scale': 0.8, 'logit_scale': 3.0},
        logits=6.0, embd=0.1), 8)


@case('exaone-freqs')
def _():
    m = transformer('exaone', BASE, tied=True)
    m.vector('rope_freqs.weight', 4, mean=4.0, spread=3.0)
    return m


plain('minicpm-tied', 'minicpm', dict(
    embedding_scale=6.0, residual_scale=0.7, logit_scale=0.5), tied=True,
    logits=1.0, bias='qkv')
plain('mistral3', 'mistral3', dict(
    YARN, rope__scaling__original_context_length=8,
    rope__scaling__yarn_beta_fast=0.15, rope__scaling__yarn_beta_slow=0.02,
    rope__scaling__yarn_log_multiplier=0.7,
    attention__temperature_scale=0.4), hk=16)
plain('mistral3-plain', 'mistral3', tied=True)
plain('internlm2', 'internlm2', BASE, bias='qkv o')
plain('internlm2-qkv', 'internlm2', BASE, qkv='fused', bias='qkv')
plain('smollm3-tied', 'smollm3', BASE, L=5, tied=True)
plain('baichuan-13b', 'baichuan', L=40, d=40, H=5, K=5, f=16)
plain('baichuan-other', 'baichuan', L=3, K=4)
plain('granite-residual', 'granite', dict(
    logit_scale=0.7, residual_scale=0.4))
plain('granite-embedding', 'granite', dict(
    logit_scale=2.0, embedding_scale=4.0), logits=4.0)
plain('granite-attention', 'granite', dict(
    logit_scale=1.5, attention__scale=0.8), bias='qkv o f', tied=True)
plain('granite-no-rope', 'granite', dict(
    logit_scale=1.5, rope__scaling__finetuned=False))
plain('granitemoe', 'granitemoe', dict(
    MOE, logit_scale=1.5, residual_scale=0.8, embedding_scale=2.0,
    attention__scale=0.5), f=24, experts={})
plain('granitemoe-shared', 'granitemoe', dict(
    MOE, logit_scale=1.5, residual_scale=0.8,
    expert_shared_feed_forward_length=16), f=24, experts=dict(shared=16))
plain('olmo-clamp', 'olmo', dict(attention__clamp_kqv=1.1), norm='ln',
      bare=True, tied=True)
plain('deepseek-scale', 'deepseek', dict(
    expert_count=5, expert_used_count=2, expert_feed_forward_length=24,
    expert_shared_count=2, leading_dense_block_count=1,
    expert_weights_scale=1.7), L=3, dense=1, experts=dict(shared=48))

# ---- qwen, phi, olmo ----

plain('qwen2-tied', 'qwen2', BASE, bias='qkv', tied=True)
plain('qwen2-qkv-biases-apart', 'qwen2', BASE, qkv='fused, biases apart')


@case('qwen2-output-bias')
def _():
    m = transformer('qwen2', BASE, bias='qkv')
    m.vector('output.bias', VOCAB, spread=1.0)
    return m


plain('qwen2moe', 'qwen2moe', dict(
    expert_count=5, expert_used_count=3, expert_feed_forward_length=24,
    expert_shared_feed_forward_length=16), bias='qkv',
    experts=dict(shared=16, gate=True))
plain('qwen2moe-widths', 'qwen2moe', dict(      # those that follow from f
    expert_count=4, expert_used_count=2), f=48, fe=24, bias='qkv',
    experts=dict(shared=48, gate=True))
plain('qwen3-qkv', 'qwen3', BASE, hk=12, qk='head', qkv='fused')
plain('qwen3-tied', 'qwen3', BASE, hk=12, qk='head', tied=True)
QWEN3MOE = dict(expert_count=6, expert_used_count=2,
                expert_feed_forward_length=24, rope__freq_base=700.0)
plain('qwen3moe-gate-up', 'qwen3moe', QWEN3MOE, hk=12, qk='head',
      experts=dict(form='gate_up'))
plain('qwen3moe-sigmoid', 'qwen3moe', dict(QWEN3MOE, expert_gating_func=2),
      qk='head', experts={})
plain('olmoe', 'olmoe', dict(expert_count=6, expert_used_count=3), f=24, K=4,
      qk='row', experts={})
# (where weights are normalised, late is the same as first)
plain('olmoe-late', 'olmoe', dict(
    expert_count=6, expert_used_count=3, expert_gating_func=3), f=24, K=4,
    qk='row', experts={})
plain('olmo2-window', 'olmo2', dict(YARN, attention__sliding_window=6), L=5,
      norms=POST, qk='row')
plain('olmo2-two-bases', 'olmo2', dict(
    BASE, attention__sliding_window=6, rope__freq_base_swa=40.0), L=5,
    norms=POST, qk='row')
plain('olmo2-kv', 'olmo2', BASE, norms=POST, qk='row', K=1)


@case('phi2-qkv')
def _():
    m = transformer('phi2', dict(rope__dimension_count=4), norm='ln', K=4,
                    norms=('attn_norm',), qkv='fused', bias='qkv o f',
                    ffn='plain')
    m.vector('output.bias', VOCAB, spread=1.0)
    return m


plain('phi3-split', 'phi3', BASE, ffn='fused', tied=True)


@case('phi3-partial')
def _():        # 6 of 8 numbers are rotated
    return long_tables(transformer('phi3', {
        **LONG, 'rope__scaling__original_context_length': 64,
        'rope__dimension_count': 6}, ffn='fused', qkv='fused'), 6)


@case('phi3-untyped')
def _():        # most files have the tables and no type
    keys = {**LONG, 'rope__scaling__original_context_length': 64}
    del keys['rope__scaling__type']
    return long_tables(transformer('phi3', keys, ffn='fused', qkv='fused'), 8)


plain('phi3-window', 'phi3', dict(BASE, attention__sliding_window=5),
      ffn='fused', qkv='fused')

# ---- gemma ----

SWA = dict(attention__sliding_window=5, rope__freq_base=300.0)
CAPS = dict(attn_logit_softcapping=2.5, final_logit_softcapping=6.0)
SANDWICH = PRE + POST
plain('gemma-wide', 'gemma', BASE, K=1, hk=12, tied=True)
plain('gemma2-46l', 'gemma2', {**SWA, **CAPS}, L=46, H=2, K=1, hk=24, f=24,
      norms=SANDWICH, tied=True)
plain('gemma2-pattern-number', 'gemma2', dict(
    SWA, attn_logit_softcapping=3.0, final_logit_softcapping=5.0,
    attention__sliding_window_pattern=3), L=4, norms=SANDWICH, tied=True)
SCALED = dict(rope__scaling__type='linear', rope__scaling__factor=3.0)
plain('gemma3-62l', 'gemma3', {**SWA, **SCALED}, L=62, H=2, K=1, hk=24, f=24,
      norms=SANDWICH, qk='head', tied=True)
plain('gemma3-pattern-bools', 'gemma3', dict(
    SWA, **SCALED, rope__freq_base_swa=50.0, final_logit_softcapping=4.0,
    attention__sliding_window_pattern=[False, True, True, False]), L=4,
    norms=SANDWICH, qk='head')
plain('gemma3-no-window', 'gemma3', dict(SCALED, rope__freq_base=300.0),
      norms=SANDWICH, qk='head', tied=True)

# ---- layer norm ----

plain('stablelm-12b', 'stablelm', dict(rope__dimension_count=4), norm='ln',
      norms=('attn_norm',), qk='each', bias='qkv')
plain('stablelm-qk-norm', 'stablelm', dict(rope__dimension_count=4),
      norm='ln', qk='each')
plain('starcoder2-tied', 'starcoder2', BASE, norm='ln', bias='qkv o f',
      ffn='plain', tied=True)
NEOX = dict(norm='ln', K=4, qkv='fused', bias='qkv o f', ffn='plain')
plain('gptneox-serial', 'gptneox', dict(
    rope__dimension_count=4, use_parallel_residual=False), **NEOX)
plain('gptneox-parallel', 'gptneox', dict(
    rope__dimension_count=6, use_parallel_residual=True), **NEOX)
plain('falcon-40b', 'falcon', norm='ln', norms=('attn_norm', 'attn_norm_2'),
      qkv='fused', ffn='plain')
plain('falcon-tied', 'falcon', norm='ln', norms=('attn_norm',), K=1,
      qkv='fused', ffn='plain', tied=True)
plain('command-r-plus', 'command-r', dict(BASE, logit_scale=0.4), L=64,
      norm='ln, no bias', norms=('attn_norm',), qk='each', f=16, tied=True,
      logits=5.0)
plain('cohere2', 'cohere2', dict(
    BASE, logit_scale=0.4, attention__sliding_window=5), L=5,
    norm='ln, no bias', norms=('attn_norm',), tied=True, logits=5.0)
plain('nemotron-biases', 'nemotron', dict(rope__dimension_count=4), norm='ln',
      bias='qkv o f', ffn='plain')


def positions(m, n):
    m.set(context_length=n)
    m.matrix('position_embd', 32, n, gain=4.0)
    return m


@case('starcoder')
def _():
    return positions(transformer('starcoder', norm='ln', K=1, qkv='fused',
                                 bias='qkv o f', ffn='plain', tied=True,
                                 logits=3.0), 40)


@case('gpt2-tied')
def _():
    return positions(transformer('gpt2', norm='ln', K=4, qkv='fused',
                                 bias='qkv o f', ffn='plain', tied=True), 40)


def bloom(n_head, **more):
    m = transformer('bloom', norm='ln', H=n_head, K=n_head, d=8 * n_head,
                    qkv='fused', bias='qkv o f', ffn='plain', **more)
    m.norm('token_embd_norm', 8 * n_head, bias=True)
    return m


CASES['bloom-3-heads'] = lambda: bloom(3)
CASES['bloom-6-heads'] = lambda: bloom(6, tied=True)

plain('mpt', 'mpt', dict(attention__max_alibi_bias=6.0), norm='ln, no bias',
      K=4, qkv='fused', ffn='plain', tied=True)


@case('mpt-all')
def _():
    m = transformer('mpt', dict(
        attention__max_alibi_bias=5.0, attention__clamp_kqv=1.2), norm='ln',
        d=48, H=6, K=3, qkv='fused', bias='qkv o f', ffn='plain',
        qk='row, bias')
    m.matrix('position_embd', 48, 512, gain=3.0)
    for blk in layers(m):
        m.vector(blk + 'ffn_act.scales', 40, mean=1.0, spread=0.4)
    return m


@case('mpt-positions')
def _():        # learned positions instead of ALiBi
    return positions(transformer('mpt', norm='ln, no bias', K=4, qkv='fused',
                                 ffn='plain', qk='row', bias='o f'), 40)


# ---- post norms, glm ----

plain('exaone4', 'exaone4', dict(BASE, attention__sliding_window=5), L=3,
      norms=POST, qk='head', tied=True)
plain('exaone4-64l', 'exaone4', dict(BASE, attention__sliding_window=5),
      L=64, norms=POST, qk='head', H=2, K=1, hk=16, f=24)
plain('chatglm-split', 'chatglm', dict(rope__dimension_count=4),
      bias='qkv', ffn='fused')
plain('glm4-biases', 'glm4', dict(rope__dimension_count=4), bias='qkv',
      norms=SANDWICH, ffn='fused', tied=True)

# ---- gpt-oss ----


def gpt_oss(keys, **more):
    m = transformer('gpt-oss', dict(
        MOE, expert_feed_forward_length=32, attention__sliding_window=5,
        **keys), fe=32, hk=12, bias='qkv o', norms=('attn_norm',
                                                   'post_attention_norm'),
        experts=dict(bias=True, **more), L=3)
    for blk in layers(m):
        m.vector(blk + 'attn_sinks.weight', 4, mean=1.0, spread=1.5)
    return m


# The runner rounds what meets MXFP4, so all experts are used: none can be
# mistaken for another.
CASES['gpt-oss-mxfp4'] = lambda: gpt_oss(
    dict(YARN, expert_used_count=MOE['expert_count']), kind='MXFP4')
CASES['gpt-oss-pattern'] = lambda: gpt_oss(dict(
    BASE, attention__sliding_window_pattern=3))


# ---- deepseek2 ----

def latent(m, blk, il, o):
    """n = 8 and r = 6 of a key's 14 numbers, values of 10."""
    d, H, n, r, hv, c = o['d'], o['H'], 8, 6, 10, 20
    m.set(attention__kv_lora_rank=c, rope__dimension_count=r)
    if o['qk']:
        m.set(attention__q_lora_rank=24)
        m.matrix(blk + 'attn_q_a', d, 24)
        m.norm(blk + 'attn_q_a_norm', 24)
        m.matrix(blk + 'attn_q_b', 24, H * (n + r), gain=1.3)
    else:
        m.matrix(blk + 'attn_q', d, H * (n + r), gain=1.3)
    m.matrix(blk + 'attn_kv_a_mqa', d, c + r, gain=1.3)
    m.norm(blk + 'attn_kv_a_norm', c)
    if o['qkv'] == 'old':
        m.set(attention__key_length=n + r, attention__value_length=hv)
        m.matrix(blk + 'attn_kv_b', c, H * (n + hv), gain=1.3)
    else:
        m.set(attention__key_length=c + r, attention__value_length=c,
              attention__key_length_mla=n + r, attention__value_length_mla=hv,
              attention__head_count_kv=1)
        m.matrix(blk + 'attn_k_b', n, c, H, gain=0.8)
        m.matrix(blk + 'attn_v_b', c, hv, H, gain=1.3)
    m.matrix(blk + 'attn_output', H * hv, d, gain=1.5)


def deepseek2(keys, layout, q_a, L=3):
    return transformer('deepseek2', dict(
        expert_count=8, expert_used_count=3, expert_feed_forward_length=24,
        expert_shared_count=1, leading_dense_block_count=1,
        rope__freq_base=300.0, **keys), L=L, H=4, K=4, dense=1,
        attention=latent, qkv=layout, qk=q_a, experts=dict(shared=24))


YARN2 = dict(rope__scaling__type='yarn', rope__scaling__factor=6.0,
             rope__scaling__original_context_length=40,
             rope__scaling__yarn_log_multiplier=0.08)
CASES['deepseek2-lite'] = lambda: deepseek2(
    dict(expert_weights_scale=1.0), 'old', False, L=27)
CASES['deepseek2-mla'] = lambda: deepseek2(
    dict(expert_weights_scale=1.6), 'new', True)
CASES['deepseek2-yarn'] = lambda: deepseek2(
    dict(YARN2, expert_weights_scale=1.6), 'new', True)
CASES['deepseek2-lite-mla'] = lambda: deepseek2(
    dict(YARN2, expert_weights_scale=1.0), 'new', False, L=26)


def deepseek_v3(layout, **keys):
    m = deepseek2(dict(expert_gating_func=2, expert_weights_norm=True,
                       expert_weights_scale=2.5, **keys), layout, True)
    for blk in layers(m)[1:]:
        m.vector(blk + 'exp_probs_b.bias', 8)
    return m


CASES['deepseek2-v3'] = lambda: deepseek_v3(
    'new', expert_group_count=4, expert_group_used_count=2)
CASES['deepseek2-v3-no-groups'] = lambda: deepseek_v3('old')


# ---- recurrent ----

def mamba(rms, **keys):
    d, di, n, dr, dc = 32, 64, 6, 4, 4
    m = Case('mamba', embedding_length=d, block_count=2, feed_forward_length=0,
             attention__head_count=0, attention__layer_norm_rms_epsilon=0.02,
             ssm__conv_kernel=dc, ssm__inner_size=di, ssm__state_size=n,
             ssm__time_step_rank=dr, **keys)
    if rms:
        m.set(ssm__dt_b_c_rms=True)
    m.matrix('token_embd', d, VOCAB, gain=2.0)
    for blk in layers(m):
        m.norm(blk + 'attn_norm', d)
        m.matrix(blk + 'ssm_in', d, 2 * di, gain=1.3)
        m.matrix(blk + 'ssm_conv1d', dc, di, kind='F32', gain=1.5)
        m.vector(blk + 'ssm_conv1d.bias', di)
        m.matrix(blk + 'ssm_x', di, dr + 2 * n, gain=2.0)
        m.linear(blk + 'ssm_dt', dr, di, bias=True)
        m.vector(blk + 'ssm_a', n, di, mean=-0.8, spread=0.7)
        m.vector(blk + 'ssm_d', di, mean=1.0)
        m.matrix(blk + 'ssm_out', di, d, gain=2.0)
    m.norm('output_norm', d)
    return m


CASES['falconmamba'] = lambda: mamba(True)
CASES['mamba-tied'] = lambda: mamba(False)


def rwkv(arch, L, d=32, size=16, f=48, **keys):
    """What rwkv6 and rwkv7 share."""
    m = Case(arch, embedding_length=d, block_count=L, feed_forward_length=f,
             attention__head_count=0, attention__layer_norm_epsilon=0.02,
             wkv__head_size=size, **keys)
    m.matrix('token_embd', d, VOCAB, gain=math.sqrt(d))
    m.norm('token_embd_norm', d, bias=True)
    for blk in layers(m):
        m.norm(blk + 'attn_norm', d, bias=True)
        m.norm(blk + 'attn_norm_2', d, bias=True)
        m.norm(blk + 'time_mix_ln', d, bias=True)
        for name in ('key', 'value', 'receptance', 'output'):
            m.matrix(blk + 'time_mix_' + name, d, d, gain=0.8)
        m.vector(blk + 'channel_mix_lerp_k.weight', d, 1, 1, mean=0.5)
        m.matrix(blk + 'channel_mix_key', d, f)
        m.matrix(blk + 'channel_mix_value', f, d)
    m.norm('output_norm', d, bias=True)
    m.matrix('output', d, VOCAB, gain=2.0)
    return m


def rwkv6(apart=False, L=2, d=32, low=6, **keys):
    m = rwkv('rwkv6', L, time_mix_extra_dim=low, time_decay_extra_dim=low,
             **keys)
    for blk in layers(m):
        mix = blk + 'time_mix_'
        m.matrix(mix + 'gate', d, d)
        m.matrix(mix + 'w1', d, 5 * low, kind='F32')
        m.matrix(mix + 'w2', low, d, 5, kind='F32')
        m.vector(mix + 'lerp_x.weight', d, 1, 1, mean=0.5)
        for c in 'wkvrg' if apart else ():
            m.vector(mix + 'lerp_%s.weight' % c, d, 1, 1, mean=0.5)
        if not apart:
            m.vector(mix + 'lerp_fused.weight', d, 1, 1, 5, mean=0.5)
        m.vector(mix + 'first.weight', 16, d // 16, spread=1.0)
        m.vector(mix + 'decay.weight', d, mean=-1.0, spread=1.5)
        m.matrix(mix + 'decay_w1', d, low, kind='F32')
        m.matrix(mix + 'decay_w2', low, d, kind='F32')
        m.vector(blk + 'channel_mix_lerp_r.weight', d, 1, 1, mean=0.5)
        m.matrix(blk + 'channel_mix_receptance', d, d)
    return m


CASES['rwkv6-lerps-apart'] = lambda: rwkv6(apart=True)
CASES['rwkv6-rescale'] = lambda: rwkv6(L=5, rescale_every_n_layers=2)


def rwkv7(first_v=True, d=32, low=6):
    """first_v: layer 0 has the tensors of the value mix, which it needs not."""
    m = rwkv('rwkv7', 3, attention__decay_lora_rank=low,
             attention__iclr_lora_rank=low, attention__gate_lora_rank=low,
             attention__value_residual_mix_lora_rank=low)
    for blk in layers(m):
        mix = blk + 'time_mix_'
        m.vector(mix + 'lerp_fused.weight', d, 1, 1, 6, mean=0.5)
        for c in 'wa' + ('v' if first_v or blk != 'blk.0.' else ''):
            m.vector(mix + c + '0.weight', d, spread=1.5)
            m.matrix(mix + c + '1', d, low, kind='F32')
            m.matrix(mix + c + '2', low, d, kind='F32', gain=1.5)
        m.matrix(mix + 'g1', d, low, kind='F32', gain=2.0)
        m.matrix(mix + 'g2', low, d, kind='F32', gain=2.0)
        for c in ('k_k', 'k_a', 'r_k'):
            m.vector(mix + c + '.weight', d, mean=0.8, spread=0.4)
    return m


CASES['rwkv7'] = rwkv7
CASES['rwkv7-no-first-v'] = lambda: rwkv7(first_v=False)
