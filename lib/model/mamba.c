/* SPDX-License-Identifier: MIT */
/*
 * Mamba (Gu and Dao 2023, arXiv 2312.00752): a convolution over the last few
 * columns, then a state of ssm_state numbers for each of ssm_inner channels,
 * which each column shrinks and adds to as it says itself. Channels do not see
 * each other in it, so threads share them; columns follow each other.
 */
#include <string.h>

#include "model.h"

/* Channels that stay on one thread. */
#define SOME 16

struct mamba_rows {
	float *uz;		/* ssm_inner each: input, gate */
	float *u;		/* ssm_inner, convolved */
	float *dbc;		/* ssm_rank: narrow dt; ssm_state: B; C */
	float *narrow;		/* ssm_rank */
	float *dt;		/* ssm_inner */
	float *y;		/* ssm_inner */
};

static struct mamba_rows
lay_out(struct space *r, const struct hparams *h, uint64_t n)
{
	uint64_t di = h->ssm_inner;

	return (struct mamba_rows){
		.uz = space_take(r, n, 2 * di), .u = space_take(r, n, di),
		.dbc = space_take(r, n, h->ssm_rank + 2 *
		    (uint64_t)h->ssm_state),
		.narrow = space_take(r, n, h->ssm_rank),
		.dt = space_take(r, n, di), .y = space_take(r, n, di),
	};
}

void
mamba_space(struct space *r, const struct hparams *h, uint64_t n)
{
	(void)lay_out(r, h, n);
}

struct scan {
	struct pico_ctx *c;
	uint32_t il;
	struct mamba_rows rows;
};

/* A state is that of the convolution, the last ssm_conv - 1 inputs of each
   channel, and then ssm_state numbers for each. */
static float *
inputs_of(const struct scan *s, size_t col, size_t channel)
{
	return kv_state_of(&s->c->kv, s->il, s->c->seq[col]) +
	    channel * (s->c->m->h.ssm_conv - 1);
}

static float *
state_of(const struct scan *s, size_t col, size_t channel)
{
	const struct hparams *h = &s->c->m->h;

	return kv_state_of(&s->c->kv, s->il, s->c->seq[col]) +
	    (size_t)h->ssm_inner * (h->ssm_conv - 1) + channel * h->ssm_state;
}

/* u = silu(b + sum w[j] u[t - ssm_conv + 1 + j]) for channels lo..hi */
static void
convolve(void *data, size_t lo, size_t hi)
{
	struct scan *s = data;
	const struct hparams *h = &s->c->m->h;
	const struct mamba_weights *l = &s->c->m->layers[s->il].mamba;
	size_t di = h->ssm_inner, last = h->ssm_conv - 1, col, ch, j;

	for (col = 0; col < s->c->n_cols; col++) {
		const float *in = s->rows.uz + col * 2 * di;
		float *u = s->rows.u + col * di;

		for (ch = lo; ch < hi; ch++) {
			const float *w = l->conv + ch * h->ssm_conv;
			float *old = inputs_of(s, col, ch);
			float sum = l->conv_bias[ch];

			for (j = 0; j < last; j++)
				sum += w[j] * old[j];
			u[ch] = sum + w[last] * in[ch];
			if (last == 0)
				continue;
			memmove(old, old + 1, (last - 1) * sizeof *old);
			old[last - 1] = in[ch];
		}
		s->c->k->apply(K_SILU, u + lo, hi - lo);
	}
}

static void
split_cols(void *data, size_t lo, size_t hi)
{
	struct scan *s = data;
	const struct hparams *h = &s->c->m->h;
	const struct norm bare = { .on = true };
	size_t n = h->ssm_state, dr = h->ssm_rank, i;

	for (i = lo; i < hi; i++) {
		float *row = s->rows.dbc + i * (dr + 2 * n);

		if (h->ssm_norm) {	/* FalconMamba */
			norm_row(s->c, &bare, row, dr, row);
			norm_row(s->c, &bare, row + dr, n, row + dr);
			norm_row(s->c, &bare, row + dr + n, n, row + dr + n);
		}
		memcpy(s->rows.narrow + i * dr, row, dr * sizeof *row);
	}
}

/* ln(1 + e^x) */
static float
softplus(float x)
{
	return x > 20 ? x : (float)m_log(1 + m_exp(x));
}

/* state = exp(dt A) state + dt u B;  y = (C . state + D u) silu(z) */
static void
scan(void *data, size_t lo, size_t hi)
{
	struct scan *s = data;
	const struct hparams *h = &s->c->m->h;
	const struct mamba_weights *l = &s->c->m->layers[s->il].mamba;
	size_t di = h->ssm_inner, n = h->ssm_state, col, ch, i;
	float decay[1 << 10];

	for (col = 0; col < s->c->n_cols; col++) {
		const float *b = s->rows.dbc + col * (h->ssm_rank + 2 * n) +
		    h->ssm_rank;
		const float *u = s->rows.u + col * di;
		float *y = s->rows.y + col * di;
		float *z = s->rows.uz + col * 2 * di + di;

		for (ch = lo; ch < hi; ch++) {
			const float *a = l->a + ch * n;
			float *state = state_of(s, col, ch);
			float dt = softplus(s->rows.dt[col * di + ch]);
			float in = dt * u[ch], sum = 0;

			for (i = 0; i < n; i++)
				decay[i] = dt * a[i];
			s->c->k->apply(K_EXP, decay, n);
			for (i = 0; i < n; i++) {
				state[i] = decay[i] * state[i] + in * b[i];
				sum += state[i] * b[n + i];
			}
			y[ch] = sum + l->d[ch] * u[ch];
		}
		s->c->k->gate(K_SILU, z + lo, y + lo, hi - lo);
		memcpy(y + lo, z + lo, (hi - lo) * sizeof *y);
	}
}

void
mamba(struct pico_ctx *c, uint32_t il, const float *in, float *out)
{
	const struct mamba_weights *l = &c->m->layers[il].mamba;
	const struct hparams *h = &c->m->h;
	struct space space = { .base = c->work };
	struct scan s = { .c = c, .il = il };
	size_t n = c->n_cols;

	s.rows = lay_out(&space, h, n);
	multiply_one(c, &l->in, in, n, s.rows.uz);
	pool_run(c->pool, h->ssm_inner, SOME, convolve, &s);
	multiply_one(c, &l->x, s.rows.u, n, s.rows.dbc);
	pool_run(c->pool, n, 1, split_cols, &s);
	multiply_one(c, &l->dt, s.rows.narrow, n, s.rows.dt);
	pool_run(c->pool, h->ssm_inner, SOME, scan, &s);
	multiply_one(c, &l->out, s.rows.y, n, out);
}
