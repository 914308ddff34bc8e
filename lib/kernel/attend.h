/* SPDX-License-Identifier: MIT */
/*
 * Attention with vectors, the same code for every instruction set. A set says
 * what its vectors are and includes this. A block of 64 keys and values is used
 * for several queries while it is in the cache: first all scores, then what they
 * become, then all sums of values. Scores and sums are the same work: rows of
 * numbers times vectors that lie at regular distances. Lanes are keys, or
 * elements of a value.
 *
 *	vector, LANES		floats: 4, 8 or 16
 *	v_load v_store		at any address
 *	v_load_some v_store_some	n lanes, fewer than all; others are 0
 *	v_half v_half_some	from f16, at any address
 *	v_half_all		one f16 in all lanes
 *	v_codes			from int8
 *	v_set v_add v_sub v_mul v_div v_fma v_exp v_tanh
 *	v_max			where one is NaN, the second
 *	v_above			whether any lane of one is above that of another
 *	v_top			the largest lane; none is NaN
 *	v_down			n, n - 1, ... as floats
 *	v_only			lanes from..end, which may lie outside; in others
 *				-infinity
 *	KINDS(X)		X(nq, wide): `wide` vectors in registers are
 *				used for nq queries; most queries first, 1 last
 */
/* Keys in a block. */
#define KEYS 64
/* Queries that walk along the keys together. */
#define QUERIES 32
/* Queries and vectors of a kind, at most. */
#define SHARED 8
#define WIDE 8
/* Elements of Q8_0 values that become floats at once. */
#define PIECE 64
#define ALWAYS static inline __attribute__((always_inline))

/* For some queries, sum[w * LANES + lane] = fma(row[i], v[i], sum) for i < n; v[i]
   of vector w lies at from[w] + i * step. */
struct sums {
	const float *row[SHARED];
	float *sum[SHARED];
	const uint8_t *from[WIDE];
	size_t step, n;
	const uint8_t *next;	/* fetched meanwhile: as much as is read */
};

ALWAYS vector
some(bool half, const void *p, size_t n)
{
	if (n == LANES)
		return half ? v_half(p) : v_load(p);
	return half ? v_half_some(p, n) : v_load_some(p, n);
}

/* `wide` vectors, or one of which there are n lanes. */
ALWAYS void
add_products(bool half, size_t nq, size_t wide, const struct sums *m, size_t n)
{
	const size_t bytes = LANES * (half ? 2 : 4);
	vector s[SHARED][WIDE], v[WIDE], x;
	size_t c, w, i;

	UNROLL
	for (c = 0; c < nq; c++) {
		UNROLL
		for (w = 0; w < wide; w++)
			s[c][w] = some(false, m->sum[c] + LANES * w, n);
	}
	for (i = 0; i < m->n; i++) {
		UNROLL
		for (w = 0; w < wide; w++)
			v[w] = some(half, m->from[w] + i * m->step, n);
		UNROLL
		for (c = 0; c < nq; c++) {
			x = v_set(m->row[c][i]);
			UNROLL
			for (w = 0; w < wide; w++)
				s[c][w] = v_fma(x, v[w], s[c][w]);
		}
		for (w = 0; w < wide; w++)
			if (w * bytes % 64 == 0)
				__builtin_prefetch(m->next + (i * wide + w) *
				    bytes);
	}
	UNROLL
	for (c = 0; c < nq; c++) {
		UNROLL
		for (w = 0; w < wide; w++) {
			if (n == LANES)
				v_store(m->sum[c] + LANES * w, s[c][w]);
			else
				v_store_some(m->sum[c] + LANES * w, s[c][w],
				    n);
		}
	}
}

#define SUMS(nq, wide) \
	static __attribute__((noinline)) void \
	sum_floats##nq(const struct sums *m) \
	{ \
		add_products(false, nq, wide, m, LANES); \
	} \
	static __attribute__((noinline)) void \
	sum_halves##nq(const struct sums *m) \
	{ \
		add_products(true, nq, wide, m, LANES); \
	} \
	static __attribute__((noinline)) void \
	one_float##nq(const struct sums *m, size_t n) \
	{ \
		add_products(false, nq, 1, m, n); \
	} \
	static __attribute__((noinline)) void \
	one_half##nq(const struct sums *m, size_t n) \
	{ \
		add_products(true, nq, 1, m, n); \
	}
KINDS(SUMS)

#define KIND(nq, wide) \
	{ nq, wide, { sum_floats##nq, sum_halves##nq }, \
	    { one_float##nq, one_half##nq } },
static const struct {
	size_t nq, wide;
	void (*sums[2])(const struct sums *m);
	void (*one[2])(const struct sums *m, size_t n);
} kinds[] = { KINDS(KIND) };

/* The one for so many queries, or fewer. */
static size_t
kind_for(size_t n)
{
	size_t i = 0;

	while (kinds[i].nq > n)
		i++;
	return i;
}

/* What the walk over the keys has come to, by query. */
struct walk {
	const struct attend *a;
	size_t n;			/* queries */
	bool bent;			/* with a cap or slopes */
	const float *q[QUERIES];
	float *out[QUERIES];
	size_t seen[QUERIES];		/* keys, from number 0 on */
	float slope[QUERIES], m[QUERIES];
	float l[QUERIES][16];
	_Alignas(64) float p[QUERIES][KEYS];	/* scores, then weights */
	_Alignas(64) float piece[KEYS * PIECE];	/* of Q8_0 as floats */
};

/* Keys of a block: number j0 + from to j0 + end. */
struct block {
	size_t j0, from, end;
};

/* What of a block a query sees; false if nothing. */
static inline bool
sees(const struct walk *w, size_t c, size_t j0, struct block *b)
{
	size_t hidden = attend_hidden(w->a, w->seen[c]);

	if (w->seen[c] <= j0 || hidden >= j0 + KEYS)
		return false;
	*b = (struct block){ j0, hidden > j0 ? hidden - j0 : 0,
	    MIN(KEYS, w->seen[c] - j0) };
	return true;
}

/* ---- scores ---- */

/* Adds what elements d.., n of them, of queries and keys give. The keys begin
   at k, groups of them so many bytes apart. */
static void
add_scores(struct walk *w, const struct block *b, bool half, const uint8_t *k,
    size_t group, size_t d, size_t n, size_t next)
{
	const size_t size = half ? 2 : 4, last = (b->end - 1) / 16;
	struct sums m = { .step = KV_SIDE * size, .n = n };
	size_t c, i, j, x, keys;

	for (c = 0; c < w->n; c += kinds[i].nq) {
		i = kind_for(w->n - c);
		for (x = 0; x < kinds[i].nq; x++)
			m.row[x] = w->q[c + x] + d;
		keys = kinds[i].wide * LANES;
		for (j = b->from / keys * keys; j < b->end; j += keys) {
			/* where there are no more keys, those before again */
			for (x = 0; x < kinds[i].wide; x++)
				m.from[x] = k + MIN((j + x * LANES) / 16,
				    last) * group + x * LANES % 16 * size;
			for (x = 0; x < kinds[i].nq; x++)
				m.sum[x] = w->p[c + x] + j;
			m.next = k + j / 16 * group + next;
			kinds[i].sums[half](&m);
		}
		next = 0;
	}
}

/* Q8_0: n elements of keys from d on, at most 32, as floats. */
static void
widen_keys(struct walk *w, const struct block *b, const uint8_t *k, size_t d,
    size_t n, size_t next)
{
	for (size_t j = 0; j < b->end; j += LANES) {
		const uint8_t *p = k + kv_key_scale_at(w->a->dim_k, j, d);
		const uint8_t *codes = k + kv_key_at(KV_Q8_0, w->a->dim_k, j,
		    d);
		float *to = w->piece + j / 16 * 16 * 32 + j % 16;
		vector scale = v_half(p);

		for (size_t i = 0; i < n; i++) {
			v_store(to + 16 * i, v_mul(scale,
			    v_codes(codes + 16 * i)));
			if (i % 4 == 0)
				__builtin_prefetch(codes + 16 * i + next);
		}
	}
}

static void
scores(struct walk *w, const struct block *b, bool more)
{
	const struct attend *a = w->a;
	const size_t row = kv_row_bytes(a->type, a->dim_k), n = a->dim_k;
	const uint8_t *k = (const uint8_t *)a->k + b->j0 * row;
	const size_t next = more ? KEYS * row : 0;

	memset(w->p, 0, w->n * sizeof w->p[0]);
	if (a->type != KV_Q8_0)
		add_scores(w, b, a->type == KV_F16, k, 16 * row, 0, n,
		    next);
	for (size_t d = 0; a->type == KV_Q8_0 && d < n; d += 32) {
		widen_keys(w, b, k, d, MIN(32, n - d), next);
		add_scores(w, b, false, (const uint8_t *)w->piece,
		    32 * 16 * sizeof(float), d, MIN(32, n - d), 0);
	}
}

/* Soft cap and ALiBi of the scores of a block; a function by itself, so that it
   does not disturb what is compiled around it. */
static __attribute__((noinline)) void
bend(const struct walk *w, size_t c, size_t j0, vector *s)
{
	const struct attend *a = w->a;
	const int far = (int)(w->seen[c] - 1 - j0);
	vector cap = v_set(a->cap), slope = v_set(w->slope[c]);

	for (int i = 0; i < KEYS / LANES; i++) {
		if (a->cap != 0)
			s[i] = v_mul(cap, v_tanh(v_div(s[i], cap)));
		if (a->slope != NULL)
			s[i] = v_sub(s[i], v_mul(slope,
			    v_down(far - LANES * i)));
	}
}

/* ---- weights ---- */

static void
shrink(struct walk *w, size_t c, vector by)
{
	const size_t n = w->a->dim_v;
	float *out = w->out[c];
	size_t d;

	for (d = 0; d < 16; d += LANES)
		v_store(w->l[c] + d, v_mul(v_load(w->l[c] + d), by));
	for (d = 0; d + LANES <= n; d += LANES)
		v_store(out + d, v_mul(v_load(out + d), by));
	if (d < n)
		v_store_some(out + d, v_mul(v_load_some(out + d, n - d), by),
		    n - d);
}

/* Scores of the keys that a query sees become weights, those of others 0: their
   scores are never the maximum. */
static void
weigh(struct walk *w, size_t c, const struct block *b)
{
	enum { N = KEYS / LANES, HALF = N / 2, GROUP = 16 / LANES };
	vector s[N], top, m = v_set(w->m[c]), scale = v_set(w->a->scale), old;
	const int from = (int)b->from, end = (int)b->end;
	float *p = w->p[c];

	UNROLL
	for (int i = 0; i < N; i++)
		s[i] = v_mul(scale, v_load(p + LANES * i));
	if (w->bent)
		bend(w, c, b->j0, s);
	if (from > 0 || end < KEYS) {
		UNROLL
		for (int i = 0; i < N; i++)
			s[i] = v_only(s[i], from - LANES * i, end - LANES * i);
	}
	top = m;
	UNROLL
	for (int i = 0; i < N; i++)
		top = v_max(s[i], top);
	if (v_above(top, m)) {
		old = m;
		w->m[c] = v_top(top);
		m = v_set(w->m[c]);
		shrink(w, c, v_exp(v_sub(old, m)));
	}
	UNROLL
	for (int i = 0; i < N; i++) {
		s[i] = v_exp(v_sub(s[i], m));
		v_store(p + LANES * i, s[i]);
	}
	UNROLL
	for (int i = 0; i < GROUP; i++)
		v_store(w->l[c] + LANES * i, v_add(v_load(w->l[c] +
		    LANES * i), v_add(v_add(s[i], s[i + HALF]),
		    v_add(s[i + GROUP], s[i + HALF + GROUP]))));
}

/* ---- values ---- */

/* Adds n elements, from d on, of values, rows of so many bytes from v on, the
   first of them that of key 0 of the block. */
static void
add_values(struct walk *w, const struct block *all, bool half,
    const uint8_t *v, size_t row, size_t d, size_t n, size_t next)
{
	const size_t size = half ? 2 : 4;
	struct sums m = { .step = row };
	struct block b, other;
	size_t c, i, x, e, same;

	for (c = 0; c < w->n; c += same) {
		same = 1;
		if (!sees(w, c, all->j0, &b))
			continue;
		while (same < SHARED && c + same < w->n &&
		    sees(w, c + same, all->j0, &other) &&
		    other.from == b.from && other.end == b.end)
			same++;
		i = kind_for(same);
		same = kinds[i].nq;
		m.n = b.end - b.from;
		for (x = 0; x < same; x++)
			m.row[x] = w->p[c + x] + b.from;
		for (e = 0; e < n; e += x * LANES) {
			bool full = n - e >= kinds[i].wide * LANES;
			const uint8_t *p = v + b.from * row + e * size;

			for (x = 0; x < kinds[i].wide; x++)
				m.from[x] = p + x * LANES * size;
			for (x = 0; x < same; x++)
				m.sum[x] = w->out[c + x] + d + e;
			m.next = v + next + e * size * KEYS;
			if (full)
				kinds[i].sums[half](&m);
			else
				kinds[i].one[half](&m, MIN(n - e, LANES));
			x = full ? kinds[i].wide : 1;
		}
		next = 0;
	}
}

/* Q8_0: n elements of values from d on, at most PIECE, as floats. */
static void
widen_values(struct walk *w, const struct block *b, const uint8_t *v,
    size_t row, size_t d, size_t n, size_t next)
{
	for (size_t j = b->from; j < b->end; j++)
		for (size_t i = 0; i < n; i += 32) {
			const uint8_t *p = v + j * row + (d + i) / 32 *
			    KV_BLOCK_BYTES;
			vector scale = v_half_all(p);

			__builtin_prefetch(p + next);
			for (size_t e = 0; e < 32; e += LANES)
				v_store(w->piece + j * PIECE + i + e,
				    v_mul(scale, v_codes(p + 2 + e)));
		}
}

static void
values(struct walk *w, const struct block *b, bool more)
{
	const struct attend *a = w->a;
	const size_t row = kv_row_bytes(a->type, a->dim_v), n = a->dim_v;
	const uint8_t *v = (const uint8_t *)a->v + b->j0 * row;
	const size_t next = more ? KEYS * row : 0;

	if (a->type != KV_Q8_0)
		add_values(w, b, a->type == KV_F16, v, row, 0, n,
		    next);
	for (size_t d = 0; a->type == KV_Q8_0 && d < n; d += PIECE) {
		widen_values(w, b, v, row, d, MIN(PIECE, n - d), next);
		add_values(w, b, false, (const uint8_t *)w->piece,
		    4 * PIECE, d, MIN(PIECE, n - d), 0);
	}
}

/* ---- all of it ---- */

/* Queries first.. of all columns, n of them. */
static void
start(struct walk *w, const struct attend *a, size_t first, size_t n)
{
	w->a = a;
	w->n = n;
	w->bent = a->cap != 0 || a->slope != NULL;
	for (size_t c = 0; c < n; c++) {
		size_t col = (first + c) / a->n_q, h = (first + c) % a->n_q;

		w->q[c] = a->q + col * a->q_stride + h * a->dim_k;
		w->out[c] = a->out + col * a->out_stride + h * a->dim_v;
		memset(w->out[c], 0, a->dim_v * sizeof *w->out[c]);
		w->seen[c] = a->n_keys + col;
		w->slope[c] = a->slope != NULL ? a->slope[h] : 0;
		w->m[c] = a->sink != NULL ? a->sink[h] : -INFINITY;
		memset(w->l[c], 0, sizeof w->l[c]);
		w->l[c][0] = a->sink != NULL;
	}
}

static void
finish(struct walk *w)
{
	const size_t n = w->a->dim_v;

	for (size_t c = 0, d; c < w->n; c++) {
		float *l = w->l[c], *out = w->out[c];
		vector sum;

		for (size_t h = 8; h > 0; h /= 2)
			for (size_t e = 0; e < h; e++)
				l[e] += l[e + h];
		sum = v_set(l[0]);
		for (d = 0; d + LANES <= n; d += LANES)
			v_store(out + d, v_div(v_load(out + d), sum));
		if (d < n)
			v_store_some(out + d, v_div(v_load_some(out + d,
			    n - d), sum), n - d);
	}
}

static void
attend(const struct attend *a)
{
	const size_t all = a->n_cols * a->n_q;
	struct walk w;
	struct block b, own;

	for (size_t first = 0; first < all; first += w.n) {
		size_t hidden, end;

		start(&w, a, first, MIN(QUERIES, all - first));
		hidden = attend_hidden(a, w.seen[0]);
		end = w.seen[w.n - 1];
		for (b.j0 = hidden / KEYS * KEYS; b.j0 < end; b.j0 += KEYS) {
			const bool more = b.j0 + KEYS < end;

			b.from = hidden > b.j0 ? hidden - b.j0 : 0;
			b.end = MIN(KEYS, end - b.j0);
			scores(&w, &b, more);
			for (size_t c = 0; c < w.n; c++)
				if (sees(&w, c, b.j0, &own))
					weigh(&w, c, &own);
			values(&w, &b, more);
		}
		finish(&w);
	}
}
