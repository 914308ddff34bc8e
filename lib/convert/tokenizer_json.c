/* SPDX-License-Identifier: MIT */
/* tokenizer.json: the vocabulary, the merges, and what is done with a text
   before. */
#include <inttypes.h>

#include "convert.h"

static bool
is_true(const struct doc *d, uint32_t object, const char *name)
{
	bool v = false;

	return doc_bool(d, doc_get(d, object, name), &v) > 0 && v;
}

static struct pico_str
get_str(const struct doc *d, uint32_t object, const char *name)
{
	struct pico_str s = { "", 0 };

	(void)doc_str(d, doc_get(d, object, name), &s);
	return s;
}

/* ---- the pre-tokenizer ---- */

/*
 * What the steps come to, written in a line: the names of the steps with what
 * matters of their options. The vocabularies that share a line differ in other
 * things.
 */
#define S(regex) "Split(" regex ") "
#define BL "ByteLevel "
#define BG "ByteLevel(regex) "
#define DIGITS "Digits(individual) "
#define ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LLAMA3(digits) ANY_CASE "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define MIXED(suffix, digits) \
	"[^\r\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix \
	"|[^\r\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix "|" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\r\n/]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
#define CJK "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80" \
	"\xea\xb0\x80-\xed\x9f\xbf]+"

enum { CLEAN_NO = 1, CLEAN_YES = 2, WHOLE_NO = 4, WHOLE_YES = 8, GMASK = 16 };

static const struct line {
	const char *steps;	/* '*' at the end of a part: whatever follows
				   up to the next step */
	unsigned when;
	const char *name;
} lines[] = {
	{ BG, 0, "gpt-2" },
	{ DIGITS BG, CLEAN_NO, "smollm" },
	{ DIGITS BG, CLEAN_YES, "starcoder" },
	{ S(LLAMA3("\\p{N}{1,3}")) BL, WHOLE_YES, "llama-bpe" },
	{ S(LLAMA3("\\p{N}{1,3}")) BL, WHOLE_NO | GMASK, "glm4" },
	{ S(LLAMA3("\\p{N}{1,3}")) BL, WHOLE_NO, "dbrx" },
	{ S(LLAMA3("\\p{N}")) BL, CLEAN_YES, "stablelm2" },
	{ S(LLAMA3("\\p{N}")) BL, CLEAN_NO, "qwen2" },
	{ S(ANY_CASE "|[^\r\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
	  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
	  BL, 0, "qwen35" },
	{ S(MIXED(ANY_CASE "?", "\\p{N}{1,3}")) BL, 0, "gpt-4o" },
	{ S(MIXED("", "\\p{N}")) BL, 0, "tekken" },
	{ S("\\p{N}{1,3}") S("[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-"
	  "\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+")
	  S("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
	  "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
	  "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+") BL, 0,
	  "deepseek-v3" },
	{ S("[\r\n]") S("\\s?\\p{L}+") S("\\s?\\p{P}+") S(CJK) DIGITS BL, 0,
	  "deepseek-coder" },
	/* the second one lists the letters that have case: two thousand */
	{ S("[\r\n]") "Split(\\s?[A-Za-z*" S("\\s?[!-/:-~"
	  "\xef\xbc\x81-\xef\xbc\x8f\xef\xbc\x9a-\xef\xbd\x9e"
	  "\xe2\x80\x98-\xe2\x80\x9f\xe3\x80\x80-\xe3\x80\x82]+")
	  S("\\s+$") S(CJK) DIGITS BL, 0, "deepseek-llm" },
	{ "Punctuation(Contiguous) " BG "Digits " S("[0-9][0-9][0-9]"), 0,
	  "falcon" },
	{ S(" ?[^(\\s|.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81"
	  "\xe0\xa5\xa4\xdb\x94\xd8\x8c)]+") BL, 0, "bloom" },
};

/* What has no room is cut off, and then known no more. */
struct steps {
	char text[4096];
	size_t n;
};

static void
put(struct steps *s, struct pico_str t)
{
	size_t n = MIN(t.n, sizeof s->text - 1 - s->n);

	memcpy(s->text + s->n, t.p, n);
	s->n += n;
	s->text[s->n] = '\0';
}

static void
put_text(struct steps *s, const char *t)
{
	put(s, str_of(t));
}

/* Expressions write line ends in either of two ways. */
static void
put_regex(struct steps *s, struct pico_str t)
{
	size_t i;

	for (i = 0; i < t.n; i++) {
		if (t.p[i] == '\\' && i + 1 < t.n) {
			i++;
			if (t.p[i] == 'r' || t.p[i] == 'n') {
				put_text(s, t.p[i] == 'r' ? "\r" : "\n");
				continue;
			}
			put_text(s, "\\");
		}
		put(s, (struct pico_str){ t.p + i, 1 });
	}
}

static void
put_step(struct steps *s, const struct doc *d, uint32_t step)
{
	struct pico_str type = get_str(d, step, "type"), t;
	uint32_t pattern;
	bool regex = true;

	put(s, type);
	if (pico_str_is(type, "ByteLevel")) {
		(void)doc_bool(d, doc_get(d, step, "use_regex"), &regex);
		if (is_true(d, step, "add_prefix_space"))
			put_text(s, "(add_prefix_space)");
		if (regex)
			put_text(s, "(regex)");
	} else if (pico_str_is(type, "Digits")) {
		if (is_true(d, step, "individual_digits"))
			put_text(s, "(individual)");
	} else if (pico_str_is(type, "Punctuation")) {
		put_text(s, "(");
		put(s, get_str(d, step, "behavior"));
		put_text(s, ")");
	} else if (pico_str_is(type, "Split")) {
		pattern = doc_get(d, step, "pattern");
		t = get_str(d, pattern, "Regex");
		put_text(s, t.n > 0 ? "(" : "(string ");
		if (t.n > 0)
			put_regex(s, t);
		else
			put(s, get_str(d, pattern, "String"));
		put_text(s, ")");
		t = get_str(d, step, "behavior");
		if (!pico_str_is(t, "Isolated"))
			put(s, t);
		if (is_true(d, step, "invert"))
			put_text(s, "(invert)");
	}
	put_text(s, " ");
}

/* All steps in order, those in sequences too. */
static void
put_steps(struct steps *s, const struct doc *d)
{
	uint32_t root = doc_get(d, 0, "pre_tokenizer"), at = root, list;

	s->n = 0;
	s->text[0] = '\0';
	while (at != JSON_NONE) {
		list = doc_get(d, at, "pretokenizers");
		if (list != JSON_NONE && d->json.node[list].kind ==
		    JSON_ARRAY && d->json.node[list].first != JSON_NONE) {
			at = d->json.node[list].first;
			continue;
		}
		if (list == JSON_NONE || d->json.node[list].kind != JSON_ARRAY)
			put_step(s, d, at);
		/* the next one, or that of the sequence around */
		while (at != root && d->json.node[at].next == JSON_NONE)
			at = d->json.node[d->json.node[at].parent].parent;
		at = at == root ? JSON_NONE : d->json.node[at].next;
	}
}

static bool
same_steps(const char *have, const char *want)
{
	while (*want != '\0') {
		if (*want == '*' && want[1] == 'S') {
			while (*have != '\0' && strncmp(have, ") ", 2) != 0)
				have++;
			if (*have == '\0')
				return false;
			have += 2;
			want++;
		} else if (*have++ != *want++) {
			return false;
		}
	}
	return *have == '\0';
}

const char *
pre_recognize(struct pico_convert *c, struct pico_err *err)
{
	const struct doc *d = &c->tokenizer;
	uint32_t model = doc_get(d, 0, "model");
	bool clean = true;
	const char *found = NULL;
	struct steps s;
	unsigned is;
	size_t i;

	put_steps(&s, d);
	(void)doc_bool(&c->tokenizer_config, doc_get(&c->tokenizer_config, 0,
	    "clean_up_tokenization_spaces"), &clean);
	is = (clean ? CLEAN_YES : CLEAN_NO) |
	    (is_true(d, model, "ignore_merges") ? WHOLE_YES : WHOLE_NO);
	for (i = 0; i < c->words.n; i++)
		if (c->words.text[i].p != NULL &&
		    pico_str_is(c->words.text[i], "[gMASK]"))
			is |= GMASK;
	for (i = 0; i < COUNT(lines) && found == NULL; i++)
		if ((lines[i].when & ~is) == 0 &&
		    same_steps(s.text, lines[i].steps))
			found = lines[i].name;
	if (found == NULL) {
		char shown[300];

		(void)pico_escape(shown, sizeof shown, s.text, s.n);
		(void)fail(err, "'%s': the pre_tokenizer is not known (--pre "
		    "NAME forces one): %s", d->name, s.n > 0 ? shown :
		    "none");
	}
	return found;
}

/* ---- vocabulary ---- */

static int
read_vocab(struct pico_convert *c, uint32_t vocab, struct pico_str unknown,
    bool by_score, struct pico_err *err)
{
	const struct doc *d = &c->tokenizer;
	const struct json_node *n;
	uint32_t i;
	uint64_t id;
	int type;

	for (i = d->json.node[vocab].first; i != JSON_NONE;
	    i = d->json.node[i].next) {
		n = &d->json.node[i];
		if (doc_whole(d, i, &id) < 0)
			return fail(err, "'%s': the id of '%s' is no whole "
			    "number", d->name, show_str(n->key));
		if (id < c->words.n && c->words.text[id].p != NULL)
			return fail(err, "'%s': tokens '%s' and '%s' have the "
			    "same id %" PRIu64, d->name,
			    show_str(c->words.text[id]), show_str(n->key), id);
		type = !by_score ? PICO_TOK_NORMAL :
		    byte_token_value(n->key) >= 0 ? PICO_TOK_BYTE :
		    pico_str_compare(n->key, unknown) == 0 ?
		    PICO_TOK_UNKNOWN : PICO_TOK_NORMAL;
		if (words_put(c, d->name, id, n->key, type,
		    type == PICO_TOK_NORMAL ? -1e6f : 0, err) < 0)
			return -1;
	}
	return 0;
}

/* Both sides of a merge, a string "l r" or a pair. */
static bool
split_merge(const struct doc *d, uint32_t node, struct pico_str *l,
    struct pico_str *r)
{
	uint32_t first = d->json.node[node].first;
	struct pico_str s;
	const char *space;

	if (d->json.node[node].kind == JSON_ARRAY)
		return doc_str(d, first, l) > 0 && doc_str(d,
		    d->json.node[first].next, r) > 0 && d->json.node[
		    d->json.node[first].next].next == JSON_NONE;
	if (doc_str(d, node, &s) <= 0 || s.n < 3)
		return false;
	/* a token may begin with a space */
	space = memchr(s.p + 1, ' ', s.n - 1);
	if (space == NULL)
		return false;
	*l = (struct pico_str){ s.p, (size_t)(space - s.p) };
	*r = (struct pico_str){ space + 1, s.n - l->n - 1 };
	return true;
}

/* A side of a merge as it is written: with a mark for each space. */
static struct pico_str
mark_spaces(struct words *w, struct pico_str s, struct pico_err *err)
{
	static const struct pico_str mark = { "\xc4\xa0", 2 };
	struct pico_str out = { "", 0 };
	size_t n;

	while (s.n > 0) {
		const char *space = memchr(s.p, ' ', s.n);

		n = space != NULL ? (size_t)(space - s.p) : s.n;
		out = arena_join(&w->arena, out, (struct pico_str){ s.p, n },
		    err);
		if (out.p != NULL && space != NULL)
			out = arena_join(&w->arena, out, mark, err);
		if (out.p == NULL)
			break;
		n += space != NULL;
		s = (struct pico_str){ s.p + n, s.n - n };
	}
	return out;
}

static int
keep_merge(struct pico_convert *c, uint32_t node, struct pico_str l,
    struct pico_str r, struct pico_err *err)
{
	static const struct pico_str space = { " ", 1 };
	struct words *w = &c->words;
	struct pico_str s = c->tokenizer.json.node[node].text;

	if (c->tokenizer.json.node[node].kind == JSON_ARRAY) {
		if (memchr(l.p, ' ', l.n) != NULL)
			l = mark_spaces(w, l, err);
		if (memchr(r.p, ' ', r.n) != NULL)
			r = mark_spaces(w, r, err);
		if (l.p == NULL || r.p == NULL)
			return -1;
		s = arena_join(&w->arena, l, space, err);
		if (s.p != NULL)
			s = arena_join(&w->arena, s, r, err);
		if (s.p == NULL)
			return -1;
	}
	w->merge[w->n_merges++] = s;
	return 0;
}

/* Merges by number; without a list of them in the file, the number becomes the
   score of what it makes. */
static int
read_merges(struct pico_convert *c, uint32_t model, uint32_t vocab,
    bool by_score, struct pico_err *err)
{
	const struct doc *d = &c->tokenizer;
	uint32_t list = doc_get(d, model, "merges"), i, made;
	struct pico_str l, r;
	uint64_t number = 0, id;
	char *both = mem_new(2 * TOKEN_MAX, 1, "merges", err);
	size_t n = 0;

	if (both == NULL)
		return -1;
	if (list == JSON_NONE || d->json.node[list].kind != JSON_ARRAY) {
		free(both);
		return fail(err, "'%s' has no list of merges", d->name);
	}
	for (i = d->json.node[list].first; i != JSON_NONE;
	    i = d->json.node[i].next)
		n++;
	c->words.merge = mem_new(by_score ? 0 : n, sizeof *c->words.merge,
	    "merges", err);
	if (c->words.merge == NULL)
		goto bad;
	for (i = d->json.node[list].first; i != JSON_NONE;
	    i = d->json.node[i].next, number++) {
		if (!split_merge(d, i, &l, &r)) {
			(void)fail(err, "'%s': merge %" PRIu64 " is no pair of "
			    "tokens", d->name, number);
			goto bad;
		}
		made = JSON_NONE;
		if (json_find(&d->json, vocab, l) != JSON_NONE &&
		    json_find(&d->json, vocab, r) != JSON_NONE &&
		    l.n + r.n <= TOKEN_MAX) {
			memcpy(both, l.p, l.n);
			memcpy(both + l.n, r.p, r.n);
			made = json_find(&d->json, vocab,
			    (struct pico_str){ both, l.n + r.n });
		}
		if (made == JSON_NONE) {
			(void)fail(err, "'%s': merge %" PRIu64 " ('%s' and "
			    "'%s') is of or makes a token that does not exist",
			    d->name, number, show_str(l), show_str(r));
			goto bad;
		}
		(void)doc_whole(d, made, &id);
		if (by_score && c->words.score[id] == -1e6f)
			c->words.score[id] = 0 - (float)number;
		if (!by_score && keep_merge(c, i, l, r, err) < 0)
			goto bad;
	}
	free(both);
	return 0;
bad:
	free(both);
	return -1;
}

/* What cannot be told in the file must not be there. */
static int
check_model(const struct doc *d, uint32_t model, struct pico_err *err)
{
	struct pico_str type = get_str(d, model, "type");

	if (type.n > 0 && !pico_str_is(type, "BPE"))
		return fail(err, "'%s': a model of type '%s' cannot be "
		    "converted, only BPE", d->name, show_str(type));
	if (get_str(d, model, "continuing_subword_prefix").n > 0 ||
	    get_str(d, model, "end_of_word_suffix").n > 0)
		return fail(err, "'%s': a model whose words have a prefix or "
		    "suffix cannot be converted", d->name);
	return 0;
}

/* Whether a list of steps, in `list`, has one of a type. */
static uint32_t
find_step(const struct doc *d, const char *what, const char *list,
    const char *type)
{
	uint32_t node = doc_get(d, 0, what), i;

	if (pico_str_is(get_str(d, node, "type"), type))
		return node;
	node = doc_get(d, node, list);
	if (node == JSON_NONE || d->json.node[node].kind != JSON_ARRAY)
		return JSON_NONE;
	for (i = d->json.node[node].first; i != JSON_NONE;
	    i = d->json.node[i].next)
		if (pico_str_is(get_str(d, i, "type"), type))
			return i;
	return JSON_NONE;
}

/* Of byte-level vocabularies; NFC cannot be told, but is forgiven. */
static int
check_normalizer(const struct doc *d, struct pico_err *err)
{
	uint32_t node = doc_get(d, 0, "normalizer"), i;
	struct pico_str type = get_str(d, node, "type");

	if (node == JSON_NONE || pico_str_is(type, "NFC"))
		return 0;
	i = doc_get(d, node, "normalizers");
	if (pico_str_is(type, "Sequence") && i != JSON_NONE) {
		for (i = d->json.node[i].first; i != JSON_NONE;
		    i = d->json.node[i].next) {
			type = get_str(d, i, "type");
			if (!pico_str_is(type, "NFC"))
				break;
		}
		if (i == JSON_NONE)
			return 0;
	}
	return fail(err, "'%s': the normalizer '%s' cannot be converted",
	    d->name, show_str(type));
}

/* Where the space in front comes from if nothing says so. */
static bool
puts_space(const struct doc *d)
{
	uint32_t step = find_step(d, "pre_tokenizer", "pretokenizers",
	    "Metaspace");
	struct pico_str scheme = get_str(d, step, "prepend_scheme");

	return find_step(d, "normalizer", "normalizers", "Prepend") !=
	    JSON_NONE || (step != JSON_NONE && !pico_str_is(scheme, "never"));
}

/* Only steps that SentencePiece takes may be there. */
static int
check_by_score(const struct doc *d, struct pico_err *err)
{
	struct steps s;
	const char *p = s.text;

	put_steps(&s, d);
	if (*p == '\0' || strncmp(p, "Metaspace ", 10) == 0 ||
	    strcmp(p, "Split(string  )MergedWithPrevious ") == 0)
		return 0;
	return fail(err, "'%s': byte_fallback with the pre_tokenizer '%s' "
	    "cannot be converted", d->name, show(p, s.n));
}

static void
zero_scores(struct words *w, struct pico_str unknown)
{
	uint32_t id;

	for (id = 0; id < w->n; id++) {
		if (w->text[id].p == NULL)
			continue;
		if (pico_str_compare(w->text[id], unknown) == 0)
			w->type[id] = PICO_TOK_UNKNOWN;
		if (w->type[id] == PICO_TOK_UNKNOWN ||
		    w->type[id] == PICO_TOK_CONTROL)
			w->score[id] = 0;
	}
}

int
tokenizer_json_read(struct pico_convert *c, struct pico_err *err)
{
	const struct doc *d = &c->tokenizer;
	uint32_t model = doc_get(d, 0, "model"), vocab;
	bool by_score = is_true(d, model, "byte_fallback"), given;
	struct pico_str unknown = get_str(d, model, "unk_token");

	vocab = doc_get(d, model, "vocab");
	if (check_model(d, model, err) < 0)
		return -1;
	if (vocab == JSON_NONE || d->json.node[vocab].kind != JSON_OBJECT)
		return fail(err, "'%s' has no vocabulary", d->name);
	if (by_score ? check_by_score(d, err) < 0 : check_normalizer(d, err) <
	    0)
		return -1;
	if (read_vocab(c, vocab, unknown, by_score, err) < 0 ||
	    read_merges(c, model, vocab, by_score, err) < 0 ||
	    added_tokens(c, true, err) < 0)
		return -1;
	c->words.model = by_score ? "llama" : "gpt2";
	if (by_score) {
		zero_scores(&c->words, unknown);
		c->words.add_space = puts_space(d);
	}
	if ((by_score || c->class->traits & SPACE_GIVEN) &&
	    doc_bool(&c->tokenizer_config, doc_get(&c->tokenizer_config, 0,
	    "add_prefix_space"), &given) > 0)
		c->words.add_space = given;
	if (by_score)
		c->words.pre = "default";
	else if (c->params.pre != NULL)
		c->words.pre = c->params.pre;
	else
		c->words.pre = pre_recognize(c, err);
	return c->words.pre == NULL ? -1 : 0;
}
