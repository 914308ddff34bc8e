/* SPDX-License-Identifier: MIT */
/*
 * Mirostat (Basu, Ramachandran, Keskar, Varshney 2020): keeps the surprise of
 * what is drawn, -log2 p, near tau, by a limit mu that each draw corrects.
 */
#include "sample.h"

#define LN2 0.69314718055994530942
#define SAMPLE 100	/* tokens from which version 1 estimates the exponent */

/*
 * How many of the best to keep, if probabilities fall as rank^-s. The exponent
 * is the least squares estimate from neighbours, where ln (p_i / p_i+1) is the
 * difference of the logits. The best are in order.
 */
static size_t
zipf_count(const struct pico_sampler *s, double mu)
{
	double tb = 0, tt = 0, t, exponent, e, ln_v, ln_k;
	size_t i, n = MIN(s->n, (size_t)SAMPLE);

	for (i = 0; i + 1 < n && s->cand[i + 1].logit > -INFINITY; i++) {
		t = m_log((double)(i + 2) / (double)(i + 1));
		tb += t * (s->cand[i].logit - s->cand[i + 1].logit);
		tt += t * t;
	}
	if (i == 0 || !isfinite(tb))
		return 1;
	exponent = tb / tt;
	/* k = (e 2^mu / (1 - V^-e))^(1/s), e = s - 1; at e = 0: 2^mu / ln V */
	e = exponent - 1;
	ln_v = m_log(s->n_vocab);
	ln_k = mu * LN2 + (fabs(e) < 1e-9 ? -m_log(ln_v) :
	    m_log(e / (1 - m_exp(-e * ln_v))));
	if (ln_k >= exponent * m_log((double)s->n))
		return s->n;
	return ln_k > 0 ? (size_t)m_exp(ln_k / exponent) : 1;
}

int
sampler_mirostat(struct pico_sampler *s, const struct pico_step *step,
    struct pico_err *err)
{
	double mu = 2 * step->a + s->seq->drift;
	const struct pico_cand *b;
	size_t n;

	if (step->n == 1) {
		cands_sort(s, MIN(s->n, (size_t)SAMPLE));
		n = zipf_count(s, mu);
		if (n < s->n) {
			cands_sort(s, n);
			cands_cut(s, n);
		}
	} else if (step->n == 2) {
		if (cands_softmax(s, err) < 0)
			return -1;
		/* -log2 p <= mu, in logits */
		b = &s->cand[cands_best(s)];
		cands_keep(s, b->logit - m_log(b->p) - mu * LN2, 1);
	}
	return 0;
}

double
mirostat_drift(const struct pico_step *step, double p)
{
	return -step->b * (-m_log(p) / LN2 - step->a);
}
