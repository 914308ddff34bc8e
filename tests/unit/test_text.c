/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers and detokenizer: against simple versions of their definitions on
 * random texts, and against the cases of ../shared/conformance/tokenizer where
 * those are.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/text/text.h"

static int n_run, n_failed;

static void
check(bool ok, const char *what)
{
	n_run++;
	n_failed += !ok;
	printf("%s %d - %s\n", ok ? "ok" : "not ok", n_run, what);
}

static void
die(const char *what)
{
	printf("Bail out! %s\n", what);
	exit(1);
}

/* ---- one line of JSON: an object of strings, numbers and arrays ---- */

static int
json_hex(const char *p)
{
	return (int)strtol((char[]){ p[0], p[1], p[2], p[3], 0 }, NULL, 16);
}

/* The string at *p, decoded into out; moves *p behind it. */
static size_t
json_string(const char **p, char *out)
{
	const char *s = *p + 1;
	size_t n = 0;

	for (; *s != '"'; s++) {
		uint32_t cp;

		if (*s != '\\') {
			out[n++] = *s;
			continue;
		}
		switch (*++s) {
		case 'n': out[n++] = '\n'; break;
		case 't': out[n++] = '\t'; break;
		case 'r': out[n++] = '\r'; break;
		case 'b': out[n++] = '\b'; break;
		case 'f': out[n++] = '\f'; break;
		case 'u':
			cp = (uint32_t)json_hex(s + 1);
			s += 4;
			if (cp >= 0xd800 && cp < 0xdc00 && s[1] == '\\') {
				cp = 0x10000 + ((cp - 0xd800) << 10) +
				    (uint32_t)json_hex(s + 3) - 0xdc00;
				s += 6;
			}
			n += utf8_encode(cp, out + n);
			break;
		default: out[n++] = *s;
		}
	}
	*p = s + 1;
	return n;
}

/* The value of a key, or NULL. Strings are skipped as strings. */
static const char *
json_find(const char *line, const char *key)
{
	static char skip[200000];
	const char *p = line;
	bool is_key = true;
	size_t n;

	while (*p != '\0') {
		if (*p == '"') {
			n = json_string(&p, skip);
			skip[n] = '\0';
			if (*p == ':' && is_key && strcmp(skip, key) == 0)
				return p + 1;
			continue;
		}
		is_key = *p == ',' || *p == '{' || *p == ':' || *p == '[';
		p++;
	}
	return NULL;
}

static bool
json_true(const char *line, const char *key)
{
	const char *p = json_find(line, key);

	return p != NULL && *p == 't';
}

static size_t
json_ids(const char *p, int32_t *out, size_t max)
{
	size_t n = 0;
	char *end;

	for (p++; *p != ']'; p += *p == ',') {
		if (n == max)
			die("too many ids in a case");
		out[n++] = (int32_t)strtol(p, &end, 10);
		p = end;
	}
	return n;
}

/* A string given as text or as hexadecimal; false if the key is missing. */
static bool
json_bytes(const char *line, const char *key, char *out, size_t *n)
{
	const char *p = json_find(line, key);
	size_t len = strlen(key), i;
	int byte;

	if (p == NULL)
		return false;
	*n = json_string(&p, out);
	if (len < 4 || strcmp(key + len - 4, "_hex") != 0)
		return true;
	for (i = 0; i < *n; i += 2) {
		byte = (int)strtol((char[]){ out[i], out[i + 1], 0 }, NULL, 16);
		out[i / 2] = (char)byte;
	}
	*n /= 2;
	return true;
}

/* ---- vocabularies made up here ---- */

static uint64_t random_state = 1;

static unsigned
draw(unsigned n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(random_state >> 33) % n;
}

/* Tokens over the letters a, b and the space mark, with few scores. */
struct made_up {
	struct pico_vocab v;
	struct pico_kv tokens, scores;
	uint8_t data[4096];
	float score[64];
	uint32_t at[65];
	uint8_t type[64];
};

static void
make_up(struct made_up *m, int32_t n, unsigned n_user)
{
	static const char *const part[] = { "a", "b", SPACE_MARK };
	size_t used = 0;
	int32_t id;

	memset(m, 0, sizeof *m);
	for (id = 0; id < n; id++) {
		char text[64];
		size_t len = 0, k;
		unsigned parts = 1 + draw(5);
		uint64_t n_text;

		if (id < 3)
			parts = 1;	/* single characters first */
		while (parts-- > 0) {
			const char *s = part[id < 3 ? (unsigned)id : draw(3)];

			if ((unsigned)id >= (unsigned)n - n_user &&
			    (*s & 0x80))
				s = " ";	/* as it is in the text */
			for (k = 0; s[k] != '\0'; k++)
				text[len++] = s[k];
		}
		n_text = len;
		memcpy(m->data + used, &n_text, 8);
		memcpy(m->data + used + 8, text, len);
		used += 8 + len;
		m->at[id + 1] = (uint32_t)used;
		m->score[id] = -(float)draw(4);
		m->type[id] = (unsigned)id >= (unsigned)n - n_user ?
		    PICO_TOK_USER : PICO_TOK_NORMAL;
		m->v.text_max = MAX(m->v.text_max, len);
	}
	m->tokens = (struct pico_kv){ .type = PICO_KV_ARR, .elem = PICO_KV_STR,
	    .n = (uint64_t)n, .data = m->data, .bytes = used, .wide = 8 };
	m->scores = (struct pico_kv){ .type = PICO_KV_ARR, .elem = PICO_KV_F32,
	    .n = (uint64_t)n, .data = (const uint8_t *)m->score,
	    .bytes = 4 * (uint64_t)n };
	m->v.kind = VOCAB_SPM;
	m->v.n = n;
	m->v.tokens = &m->tokens;
	m->v.scores = &m->scores;
	m->v.at = m->at;
	m->v.type = m->type;
	m->v.special = (struct pico_special){ .bos = -1, .eos = -1, .unk = -1 };
}

static int32_t
slow_find_from(const struct pico_vocab *v, int32_t id, const char *p, size_t n)
{
	for (; id < v->n; id++) {
		struct pico_str s = pico_vocab_text(v, id);

		if (s.n == n && memcmp(s.p, p, n) == 0)
			return id;
	}
	return -1;
}

static int32_t
slow_find(const struct pico_vocab *v, const char *p, size_t n)
{
	return slow_find_from(v, 0, p, n);
}

/* Of the user-defined tokens, which stand at the end. */
static int32_t
slow_find_user(const struct pico_vocab *v, const char *p, size_t n)
{
	int32_t id = 0;

	while (v->type[id] != PICO_TOK_USER)
		id++;
	return slow_find_from(v, id, p, n);
}

/* The definition: from the longest to the shortest, each cut out of what is
   left; of equally long ones, whose order is left open, the leftmost first.
   owner[i]: the token that byte i belongs to, -1 for none. */
static void
slow_special(const struct pico_vocab *v, const char *p, size_t n,
    int32_t *owner, bool *starts)
{
	size_t len, i, k;

	for (i = 0; i < n; i++) {
		owner[i] = -1;
		starts[i] = false;
	}
	for (len = v->text_max; len > 0; len--)
		for (i = 0; i + len <= n; i++) {
			int32_t id = slow_find_user(v, p + i, len);

			for (k = 0; k < len; k++)
				if (owner[i + k] >= 0)
					id = -1;
			if (id < 0)
				continue;
			for (k = 0; k < len; k++)
				owner[i + k] = id;
			starts[i] = true;
		}
}

static bool
special_is_right(unsigned rounds)
{
	static struct made_up m;
	struct special_scan scan = {0};
	bool right = true;

	while (rounds-- > 0 && right) {
		struct special_set set;
		struct special_hit hit;
		int32_t owner[40];
		bool starts[40];
		char text[40];
		size_t n = draw(40), i;
		int got;

		make_up(&m, 12, 9);
		for (i = 0; i < n; i++)
			text[i] = "aab "[draw(4)];
		slow_special(&m.v, text, n, owner, starts);
		if (special_set_init(&set, &m.v, false, NULL) < 0)
			die("no memory");
		special_begin(&scan, &set, text, n, false);
		i = 0;
		while ((got = special_next(&scan, &hit, NULL)) > 0) {
			for (; i < hit.start; i++)
				right &= owner[i] < 0;
			right &= starts[i] && owner[i] == hit.what->id;
			i = hit.end;
			right &= i == n || owner[i] < 0 || starts[i];
		}
		for (; i < n; i++)
			right &= owner[i] < 0;
		right &= got == 0;
		special_set_free(&set);
	}
	special_scan_free(&scan);
	return right;
}

/* Joins the best pair again and again, looking at all of them. */
static size_t
slow_merge(const struct pico_vocab *v, const char *p, size_t n, int32_t *ids)
{
	size_t at[200], k = 0, i, best;

	for (i = 0; i < n; i += (unsigned char)p[i] >= 0x80 ? 3 : 1)
		at[k++] = i;
	at[k] = n;
	for (;;) {
		float score = 0;
		int32_t id;

		best = k;
		for (i = 0; i + 1 < k; i++) {
			id = slow_find(v, p + at[i], at[i + 2] - at[i]);
			if (id >= 0 && (best == k ||
			    pico_vocab_score(v, id) > score)) {
				best = i;
				score = pico_vocab_score(v, id);
			}
		}
		if (best == k)
			break;
		memmove(at + best + 1, at + best + 2,
		    (k - best - 1) * sizeof *at);
		k--;
	}
	for (i = 0; i < k; i++)
		ids[i] = slow_find(v, p + at[i], at[i + 1] - at[i]);
	return k;
}

static bool
merges_are_right(unsigned rounds)
{
	static struct made_up m;
	bool right = true;

	while (rounds-- > 0 && right) {
		struct pico_tokenizer *t;
		struct pico_ids ids = {0};
		int32_t want[200];
		char text[60], norm[200];
		size_t n = draw(60), n_norm = 0, n_want, i;

		make_up(&m, 4 + (int32_t)draw(20), 0);
		m.v.space_first = draw(2);
		for (i = 0; i < n; i++)
			text[i] = "aab "[draw(4)];
		for (i = m.v.space_first && n > 0 ? 0 : 1;
		    i <= n; i++) {
			if (i > 0 && text[i - 1] != ' ') {
				norm[n_norm++] = text[i - 1];
				continue;
			}
			memcpy(norm + n_norm, SPACE_MARK, SPACE_MARK_LEN);
			n_norm += SPACE_MARK_LEN;
		}
		n_want = slow_merge(&m.v, norm, n_norm, want);
		t = pico_tokenizer_new(&m.v, NULL);
		if (t == NULL || pico_tokenize(t, text, n, 0, &ids, NULL) < 0)
			die("no memory");
		right = ids.n == n_want && (n_want == 0 ||
		    memcmp(ids.v, want, n_want * sizeof *want) == 0);
		free(ids.v);
		pico_tokenizer_free(t);
	}
	return right;
}

/* A list of merges that the vocabulary may have: more of them than are looked
   up at once, many in the order of the tokens. */
struct list {
	struct pico_kv kv;
	struct pico_str left[100], right[100];
	char text[100][32];
	uint8_t data[100 * 40];
};

static void
make_list(struct list *l, const struct pico_vocab *v, size_t n)
{
	int32_t id = 0;
	size_t used = 0, i;

	for (i = 0; i < n; i++) {
		struct pico_str s;
		uint64_t len;
		size_t k;

		id = (draw(8) == 0 ? (int32_t)draw((unsigned)v->n) :
		    id + (int32_t)draw(2)) % v->n;
		s = pico_vocab_text(v, id);
		if (s.n < 2 || draw(6) == 0)
			s = (struct pico_str){ &"abaabbab"[draw(5)], 2 +
			    draw(3) };
		k = 1 + draw((unsigned)s.n - 1);
		memcpy(l->text[i], s.p, s.n);
		l->left[i] = (struct pico_str){ l->text[i], k };
		l->right[i] = (struct pico_str){ l->text[i] + k, s.n - k };
		len = s.n + 1;
		memcpy(l->data + used, &len, 8);
		memcpy(l->data + used + 8, s.p, k);
		l->data[used + 8 + k] = ' ';
		memcpy(l->data + used + 9 + k, s.p + k, s.n - k);
		used += 8 + (size_t)len;
	}
	l->kv = (struct pico_kv){ .type = PICO_KV_ARR, .elem = PICO_KV_STR,
	    .n = n, .data = l->data, .bytes = used, .wide = 8 };
}

/* The leftmost of the pairs that come first in the list is joined, until none
   is in it: at[0..k] are the ends of the k texts that are left. */
static size_t
slow_list(const struct list *l, const char *p, size_t *at, size_t k)
{
	for (;;) {
		size_t best = l->kv.n, where = 0, i, m;

		for (i = 0; i + 1 < k; i++)
			for (m = 0; m < best; m++)
				if (l->left[m].n == at[i + 1] - at[i] &&
				    l->right[m].n == at[i + 2] - at[i + 1] &&
				    memcmp(l->text[m], p + at[i],
				    at[i + 2] - at[i]) == 0) {
					best = m;
					where = i;
				}
		if (best == l->kv.n)
			return k;
		memmove(at + where + 1, at + where + 2,
		    (k - where - 1) * sizeof *at);
		k--;
	}
}

static bool
lists_are_right(unsigned rounds)
{
	static struct made_up m;
	static struct list l;
	bool right = true;

	while (rounds-- > 0 && right) {
		struct index x;
		struct bpe b = {0};
		size_t at[61], n = 1 + draw(60), i;
		int32_t k = 0;
		char text[60];

		make_up(&m, 4 + (int32_t)draw(20), 0);
		make_list(&l, &m.v, draw(101));
		m.v.kind = VOCAB_BPE;
		m.v.merges = &l.kv;
		if (index_init(&x, &m.v, NULL) < 0 ||
		    bpe_init(&b, &x, NULL) < 0 || bpe_begin(&b, n, n, NULL) < 0)
			die("no memory");
		for (i = 0; i < n; i++) {
			at[i] = i;
			b.text[i] = text[i] = "aab"[draw(3)];
			bpe_push(&b, 1, index_find(&x, text + i, 1));
		}
		at[n] = n;
		if (bpe_merge(&b, NULL) < 0)
			die("no memory");
		n = slow_list(&l, text, at, n);
		for (i = 0; i < n && right; i++, k = b.sym[k].next) {
			const struct symbol *s = &b.sym[k];
			int32_t id = slow_find(&m.v, text + at[i], s->len);

			right = k >= 0 && s->len == at[i + 1] - at[i] &&
			    (id < 0 ? s->id >= m.v.n : s->id == id);
		}
		right &= k < 0;
		bpe_free(&b);
		index_free(&x);
	}
	return right;
}

/* ---- cutting a text where nothing that follows matters ---- */

/* Characters of each class, and those that some expression names. */
static uint32_t
draw_char(void)
{
	static const uint32_t cp[] = {
		'a', 'Z', 's', 'T', 'l', ' ', ' ', ' ', '\n', '\r', '\t', '\'',
		'.', '/', '<', '$', '1', '2', '3', 0xe9, 0x1c5, 0x2b0, 0x30ab,
		0x6f22, 0x2e80, 0xac00, 0x3131, 0xff01, 0x3002, 0xe40, 0x661,
		0x2167, 0xbd, 0x301, 0x903, 0x20e3, 0x200b, 0x85, 0x2003,
		0x1f600, 0x378, 0x24d0
	};

	return cp[draw(COUNT(cp))];
}

/* For all pre-tokenizers: whatever beginning of a text is known, what is cut
   off it are pieces of the whole, and so is what the rest gives by itself. */
static bool
cuts_are_right(unsigned rounds)
{
	uint32_t cp[40];
	uint16_t set[40];
	uint8_t whole[40], part[40];
	const char *name;
	size_t which, n, m, c, i, n_cut = 0;
	bool right = true;

	for (which = 0; (name = pre_name(which)) != NULL; which++) {
		const struct pre *pre = pre_find((struct pico_str){ name,
		    strlen(name) });
		unsigned round;

		for (round = 0; round < rounds; round++) {
			uint32_t some[4] = { draw_char(), draw_char(),
			    draw_char(), draw_char() };

			n = draw(COUNT(cp));
			for (i = 0; i < n; i++) {
				cp[i] = round % 2 ? draw_char() : some[draw(4)];
				set[i] = char_set(cp[i]);
			}
			(void)pre_split(pre, cp, set, n, false, whole);
			for (m = 0; m <= n; m++) {
				c = pre_split(pre, cp, set, m, true, part);
				n_cut += c > 0;
				right &= c <= m && (c == 0 || c == n ||
				    (whole[c] & PRE_START) != 0);
				for (i = 0; i < c; i++)
					right &= !((whole[i] ^ part[i]) &
					    PRE_START);
				(void)pre_split(pre, cp + c, set + c, n - c,
				    false, part);
				for (i = c; i < n; i++)
					right &= !((whole[i] ^ part[i - c]) &
					    PRE_START);
			}
		}
	}
	return right && n_cut > which * rounds;
}

/* ---- the alphabet, byte tokens, cleaning ---- */

static void
small_things(void)
{
	bool right = true;
	char text[] = "a , b . it 's ' x ' we 've can 't";
	size_t n;
	int i;

	for (i = 0; i < 256; i++)
		right &= char_to_byte(byte_to_char((uint8_t)i)) == i;
	check(right && byte_to_char(' ') == 0x120 && byte_to_char('\n') ==
	    0x10a && byte_to_char(0xad) == 0x143 && char_to_byte(0x144) == -1,
	    "the alphabet of bytes");
#define BYTE(s) byte_token_value((struct pico_str){ s, sizeof s - 1 })
	check(BYTE("<0x0A>") == 10 && BYTE("<0xff>") == 255 &&
	    BYTE("<0x-1>") == -1 && BYTE("<0xZZ>") == -1 &&
	    BYTE("<0x1>") == -1 && BYTE("<0x001>") == -1, "names of bytes");
	check(char_set('_') == U_PC && char_set('`') == U_S &&
	    char_set(0x2003) == U_SPACE && char_set(0x200b) == U_CONTROL &&
	    char_set(0x01c5) == U_LT && char_set(0x0301) == U_MN &&
	    char_set(0x4e00) == U_LO && char_set(0x10ffff) == U_OTHER,
	    "classes of characters");
	n = pico_clean_spaces(text, sizeof text - 1);
	check(n == 25 && memcmp(text, "a, b. it's'x'we've can 't", n) == 0,
	    "cleaning of spaces");
}

/* ---- conformance cases ---- */

static char dir[300];	/* of the large cases */
static const char small_dir[] = "tests/data/tokenizer";
static char line[200000], text_a[200000], text_b[200000];

static FILE *
open_cases(const char *where, const char *vocab, const char *kind)
{
	char path[400];

	(void)snprintf(path, sizeof path, "%s/%s.%s.jsonl", where, vocab, kind);
	return fopen(path, "r");
}

struct tally {
	unsigned n, good;
};

static void
count_case(struct tally *t, bool good)
{
	t->n++;
	t->good += good;
	if (!good)
		printf("# differs: %.200s%s", line,
		    strchr(line, '\n') != NULL && strlen(line) < 200 ? "" :
		    "\n");
}

static void
report(const char *vocab, const char *kind, const struct tally *t)
{
	char what[100];

	(void)snprintf(what, sizeof what, "%s: %u of %u %s", vocab, t->good,
	    t->n, kind);
	check(t->n > 0 && t->good == t->n, what);
}

/* Texts to ids. "disagree": what the definition says is right. pre: only the
   cases of that pre-tokenizer. */
static void
text_cases(const char *where, const char *vocab, const char *pre,
    struct pico_tokenizer *t, const struct pico_vocab *v, const char *kind)
{
	static int32_t want[50000];
	FILE *f = open_cases(where, vocab, kind);
	struct tally tally = {0};
	struct pico_ids ids = {0};

	if (f == NULL)
		return;
	ids.end = malloc(sizeof *ids.end);
	while (fgets(line, sizeof line, f) != NULL) {
		unsigned flags = 0;
		size_t n, n_want, i;
		const char *p;
		bool good;

		if (line[0] != '{' || (pre != NULL &&
		    json_bytes(line, "pre", text_a, &n) &&
		    !(n == strlen(pre) && memcmp(text_a, pre, n) == 0)))
			continue;
		if (!json_bytes(line, "text_hex", text_a, &n) &&
		    !json_bytes(line, "text", text_a, &n))
			die("a case without text");
		p = json_find(line, strcmp(kind, "disagree") == 0 ?
		    "definition" : "ids");
		n_want = json_ids(p, want, COUNT(want));
		if (json_true(line, "add_special"))
			flags = pico_tokenizer_default_flags(v);
		if (json_true(line, "parse_special"))
			flags |= PICO_PARSE_SPECIAL;
		ids.n = 0;
		good = pico_tokenize(t, text_a, n, flags, &ids, NULL) == 0 &&
		    ids.n == n_want && (n_want == 0 || memcmp(ids.v, want,
		    n_want * sizeof *want) == 0);
		for (i = 0; good && i < ids.n; i++)
			good = ids.end[i] <= n &&
			    (i == 0 || ids.end[i] >= ids.end[i - 1]);
		/* Some kinds drop white space, at the end for good. */
		if (ids.n > 0 && ids.end[ids.n - 1] != n &&
		    v->kind != VOCAB_WORDPIECE && v->kind != VOCAB_UNIGRAM)
			good = false;
		count_case(&tally, good);
	}
	free(ids.v);
	free(ids.end);
	(void)fclose(f);
	report(pre != NULL ? pre : vocab, kind, &tally);
}

/* Ids to texts: joined_hex with the space in front kept; the whole-sequence
   text of other programs, which take the space away from sequences without BOS
   too, only where the two rules ask for the same. */
static void
detok_cases(const char *vocab, const struct pico_vocab *v)
{
	static int32_t ids[50000];
	FILE *f = open_cases(dir, vocab, "detok");
	struct tally joined = {0}, whole = {0};
	struct pico_detok d;
	const struct pico_special *s = pico_vocab_special(v);

	if (f == NULL)
		return;
	while (fgets(line, sizeof line, f) != NULL) {
		size_t n_ids = json_ids(json_find(line, "ids"), ids,
		    COUNT(ids)), n, i, used = 0;
		bool special = json_true(line, "special");

		(void)json_bytes(line, "joined_hex", text_a, &n);
		pico_detok_init(&d, v, special, true);
		for (i = 0; i < n_ids; i++)
			used += pico_detok_token(&d, ids[i], text_b + used);
		count_case(&joined, used == n &&
		    memcmp(text_a, text_b, n) == 0);
		if (special || s->add_bos)
			continue;
		(void)json_bytes(line, "detok_hex", text_a, &n);
		pico_detok_init(&d, v, false, false);
		for (i = used = 0; i < n_ids; i++)
			used += pico_detok_token(&d, ids[i], text_b + used);
		if (s->clean_spaces)
			used = pico_clean_spaces(text_b, used);
		count_case(&whole, used == n &&
		    memcmp(text_a, text_b, n) == 0);
	}
	(void)fclose(f);
	report(vocab, "detok", &joined);
	if (whole.n > 0)
		report(vocab, "detok, whole", &whole);
}

static void
conformance(const char *vocab, const int32_t *eog)
{
	struct pico_err err = {0};
	struct pico_gguf *g;
	struct pico_vocab *v;
	struct pico_tokenizer *t;
	char path[] = "/tmp/pico-test-XXXXXX", command[800];
	int fd = mkstemp(path);
	const int32_t *got;
	size_t n, i;

	(void)snprintf(command, sizeof command, "cat %s/vocab/%s.gguf* | "
	    "gzip -dcf >%s", dir, vocab, path);
	if (fd < 0 || system(command) != 0 ||
	    pico_gguf_open(&g, path, PICO_GGUF_HEADER, &err) < 0)
		die(command);
	(void)close(fd);
	(void)unlink(path);
	v = pico_vocab_open(g, NULL, &err);
	t = v == NULL ? NULL : pico_tokenizer_new(v, &err);
	if (t == NULL)
		die(err.msg);
	text_cases(dir, vocab, NULL, t, v, "cases");
	text_cases(dir, vocab, NULL, t, v, "bytes");
	text_cases(dir, vocab, NULL, t, v, "disagree");
	detok_cases(vocab, v);
	got = pico_vocab_eog(v, &n);
	for (i = 0; i < n && got[i] == eog[i]; i++)
		;
	(void)snprintf(command, sizeof command, "%s: end-of-generation ids",
	    vocab);
	check(i == n && eog[i] == -1, command);
	pico_tokenizer_free(t);
	pico_vocab_close(v);
	pico_gguf_close(g);
}

/* What the expressions cut a text into. */
static void
pre_cases(const char *where)
{
	static uint32_t cp[50000];
	static uint16_t set[50000];
	static uint8_t start[50000];
	FILE *f = open_cases(where, "pretokenize", "cases");
	struct tally tally = {0};

	if (f == NULL)
		die("no cases of pre-tokenizers");
	while (fgets(line, sizeof line, f) != NULL) {
		const struct pre *pre;
		const char *p;
		size_t n, len, k, i, n_cp = 0, at = 0;
		bool good = true;

		(void)json_bytes(line, "pre", text_a, &n);
		pre = pre_find((struct pico_str){ text_a, n });
		if (pre == NULL) {
			count_case(&tally, false);
			continue;
		}
		(void)json_bytes(line, "text", text_a, &n);
		for (i = 0; i < n; n_cp++) {
			i += utf8_decode(text_a + i, n - i, &cp[n_cp]);
			set[n_cp] = char_set(cp[n_cp]);
		}
		(void)pre_split(pre, cp, set, n_cp, false, start);
		p = json_find(line, "pieces");
		for (p++; *p == '"' || *p == ','; ) {
			if (*p == ',') {
				p++;
				continue;
			}
			len = json_string(&p, text_b);
			good = good && at < n_cp && start[at] & PRE_START;
			for (k = 0; k < len; at++)
				k += utf8_decode(text_b + k, len - k,
				    &(uint32_t){0});
			for (i = at - 1; good && i > 0 && !(start[i] & PRE_START); i--)
				;
			good = good && (at == n_cp || start[at] & PRE_START);
		}
		for (i = k = 0; i < n_cp; i++)
			k += start[i] & PRE_START;
		p = json_find(line, "pieces");
		for (p++; *p == '"' || *p == ','; )
			if (*p == ',')
				p++;
			else if (json_string(&p, text_b) > 0)
				k--;
		count_case(&tally, good && k == 0);
	}
	(void)fclose(f);
	report("pretokenize", "cases", &tally);
}

/* The small cases, which are always here. */
static void
small_cases(const char *path, const char *cases, const char *pre)
{
	struct pico_err err = {0};
	struct pico_gguf *g = NULL;
	struct pico_vocab *v = NULL;
	struct pico_tokenizer *t = NULL;

	if (pico_gguf_open(&g, path, PICO_GGUF_HEADER, &err) == 0)
		v = pico_vocab_open(g, pre, &err);
	if (v != NULL)
		t = pico_tokenizer_new(v, &err);
	if (t == NULL)
		die(err.msg);
	text_cases(small_dir, cases, pre, t, v, "cases");
	pico_tokenizer_free(t);
	pico_vocab_close(v);
	pico_gguf_close(g);
}

/* Of two merges that are none the first is named. */
static void
bad_list(void)
{
	static struct made_up m;
	static struct list l;
	struct index x;
	struct bpe b;
	struct pico_err err = {0};
	size_t at[] = { 71, 69 }, i, k;

	make_up(&m, 20, 0);
	make_list(&l, &m.v, 90);
	m.v.kind = VOCAB_BPE;
	m.v.merges = &l.kv;
	for (i = 0; i < COUNT(at); i++) {
		uint64_t pos = 0;

		for (k = 0; k < at[i]; k++)
			(void)pico_kv_str_next(&l.kv, &pos);
		*(char *)memchr(l.data + pos + 8, ' ', l.kv.bytes - pos) = '-';
	}
	if (index_init(&x, &m.v, NULL) < 0)
		die("no memory");
	check(bpe_init(&b, &x, &err) < 0 && strstr(err.msg,
	    "entry 69 '") != NULL, "the first bad merge of a list");
	bpe_free(&b);
	index_free(&x);
}

#define EOG(...) (const int32_t []){ __VA_ARGS__, -1 }

int
main(void)
{
	const char *shared = getenv("SHARED");

	check(special_is_right(20000), "special tokens as defined");
	check(merges_are_right(20000), "merges as defined");
	check(lists_are_right(20000), "lists of merges as defined");
	bad_list();
	check(cuts_are_right(300), "cuts of pre-tokenizers, whatever follows");
	small_things();
	pre_cases(small_dir);
	small_cases("examples/model/pico-tales.gguf", "spm", NULL);
	small_cases("tests/data/tokenizer/bpe.gguf", "bpe", "gpt-2");
	small_cases("tests/data/tokenizer/bpe.gguf", "bpe", "llama-bpe");
	small_cases("tests/data/tokenizer/bpe.gguf", "bpe", "qwen2");
	small_cases("tests/data/tokenizer/bpe.gguf", "bpe", "starcoder");
	small_cases("tests/data/tokenizer/unigram.gguf", "unigram", NULL);
	small_cases("tests/data/tokenizer/wordpiece.gguf", "wordpiece", NULL);
	small_cases("tests/data/tokenizer/rwkv.gguf", "rwkv", NULL);
	small_cases("tests/data/tokenizer/lines.gguf", "lines", NULL);

	(void)snprintf(dir, sizeof dir, "%s/conformance/tokenizer",
	    shared != NULL && *shared != '\0' ? shared : "../shared");
	if (access(dir, R_OK) < 0) {
		n_run++;
		printf("ok %d - conformance # SKIP no '%s'\n", n_run, dir);
	} else {
		pre_cases(dir);
		conformance("llama-spm", EOG(2));
		conformance("phi-3", EOG(32000, 32007));
		conformance("gemma3-spm", EOG(1, 106));
		conformance("gpt-2", EOG(50256));
		conformance("llama3-bpe", EOG(128001, 128009));
		conformance("qwen3-bpe", EOG(151643, 151645, 151662, 151663,
		    151664));
		conformance("deepseek-coder", EOG(32014));
		conformance("deepseek-v3-30k", EOG(29998));
		conformance("falcon", EOG(11));
		conformance("starcoder", EOG(0, 4));
		conformance("mpt", EOG(0));
		conformance("refact", EOG(0, 4, 18));
		conformance("o200k-30k", EOG(30001, 30004, 30014));
		conformance("bert-bge", EOG(0));
		conformance("unigram-mini", EOG(1));
		conformance("unigram-mini-noprefix", EOG(1));
		conformance("rwkv-mini", EOG(0));
	}
	printf("1..%d\n", n_run);
	return n_failed > 0;
}
