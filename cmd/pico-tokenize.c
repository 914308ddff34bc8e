/* SPDX-License-Identifier: MIT */
/* pico-tokenize: text to tokens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

static const struct cmd cmd = {
	"pico-tokenize",
	"[-l | -0] [-bSvx] [--show | --count | --offsets] [-m model] "
	    "[file ...]",
	"Writes the token ids of a text, or of each line or record."
};

static const char *model, *pre;
static bool lines, records, exact, special, binary, verbose;
static bool want_bos, no_bos, want_eos, no_eos, continued;
static bool show, count, offsets;

static const struct pico_opt options[] = {
	{ 'm', "model", PICO_OPT_TEXT, &model, "FILE",
	    "the model (default: $PICO_MODEL)", 0, 0, NULL },
	{ 'l', "lines", PICO_OPT_FLAG, &lines, NULL,
	    "each line is a text of its own", 0, 0, NULL },
	{ '0', "null", PICO_OPT_FLAG, &records, NULL,
	    "each NUL-terminated record is a text", 0, 0, NULL },
	{ 'x', "exact", PICO_OPT_FLAG, &exact, NULL,
	    "keep the newline (with -0: NUL) that ends a text", 0, 0, NULL },
	{ 'S', "special", PICO_OPT_FLAG, &special, NULL,
	    "recognise special tokens in the text", 0, 0, NULL },
	{ 0, "bos", PICO_OPT_FLAG, &want_bos, NULL,
	    "begin with BOS, whatever the model says", 0, 0, NULL },
	{ 0, "no-bos", PICO_OPT_FLAG, &no_bos, NULL,
	    "add no BOS", 0, 0, NULL },
	{ 0, "eos", PICO_OPT_FLAG, &want_eos, NULL,
	    "end with EOS, whatever the model says", 0, 0, NULL },
	{ 0, "no-eos", PICO_OPT_FLAG, &no_eos, NULL,
	    "add no EOS", 0, 0, NULL },
	{ 0, "continued", PICO_OPT_FLAG, &continued, NULL,
	    "the text continues another: no BOS, no space in front", 0, 0,
	    NULL },
	{ 0, "pre", PICO_OPT_TEXT, &pre, "NAME",
	    "use this pre-tokenizer, not the model's", 0, 0, NULL },
	{ 'b', "binary", PICO_OPT_FLAG, &binary, NULL,
	    "write a binary token stream", 0, 0, NULL },
	{ 0, "show", PICO_OPT_FLAG, &show, NULL,
	    "write a table: id, type, piece", 0, 0, NULL },
	{ 0, "count", PICO_OPT_FLAG, &count, NULL,
	    "write the number of tokens of each text", 0, 0, NULL },
	{ 0, "offsets", PICO_OPT_FLAG, &offsets, NULL,
	    "write a table: id, first byte, byte after the last", 0, 0, NULL },
	{ 'v', "verbose", PICO_OPT_FLAG, &verbose, NULL,
	    "statistics on standard error", 0, 0, NULL },
	CMD_OPTIONS
};

static struct pico_vocab *vocab;
static struct pico_tokenizer *tokenizer;
static unsigned flags;
static struct pico_ids ids;
static struct pico_tokens_out out;
static bool out_prompt;
static uint64_t n_texts, n_bytes, n_tokens;

/* Bytes of a text that are read before its tokens are asked for. */
#define PART 65536

static struct text {
	bool begun;
	uint64_t n_bytes, n_tokens;	/* of it that are done */
	uint64_t end;			/* of the last token */
} text;

static void
print_piece(int32_t id)
{
	struct pico_str s = pico_vocab_text(vocab, id);
	size_t size = s.n * 4 + 1;
	char *piece = cmd_alloc(size, 1);

	(void)pico_escape(piece, size, s.p, s.n);
	(void)printf("%" PRId32 "\t%s\t%s\n", id, pico_token_type_name(
	    pico_vocab_type(vocab, id)), piece);
	free(piece);
}

/* The tokens that have come, as they are asked for. */
static void
put_ids(void)
{
	struct pico_err err = {0};
	size_t i;

	for (i = 0; i < ids.n && !count; i++) {
		if (show) {
			print_piece(ids.v[i]);
		} else if (ids.end != NULL) {	/* --offsets */
			(void)printf("%" PRId32 "\t%" PRIu64 "\t%zu\n",
			    ids.v[i], text.end, ids.end[i]);
			text.end = ids.end[i];
		} else if (pico_tokens_put(&out, ids.v[i], &err) < 0) {
			cmd_die(&err);
		}
	}
	text.n_tokens += ids.n;
	ids.n = 0;
}

static void
begin_text(void)
{
	pico_tokenize_begin(tokenizer, flags);
	text = (struct text){ .begun = true };
	if ((show || offsets) && n_texts > 0)
		(void)putchar('\n');
}

static void
end_text(void)
{
	struct pico_err err = {0};

	text.begun = false;
	n_texts++;
	n_bytes += text.n_bytes;
	n_tokens += text.n_tokens;
	if (count)
		(void)printf("%" PRIu64 "\n", text.n_tokens);
	if (show || count || offsets) {
		if (out_prompt)
			cmd_flush();
	} else if (pico_tokens_end(&out, PICO_END_LIMIT, &err) < 0 ||
	    (out_prompt && pico_tokens_flush(&out, &err) < 0)) {
		cmd_die(&err);
	}
}

/* The text may bring its own BOS: never two. */
static void
drop_second_bos(void)
{
	int32_t bos = pico_vocab_special(vocab)->bos;

	if (!(flags & PICO_ADD_BOS) || ids.n < 2 || ids.v[1] != bos)
		return;
	ids.n--;
	memmove(ids.v, ids.v + 1, ids.n * sizeof *ids.v);
	if (ids.end != NULL)
		memmove(ids.end, ids.end + 1, ids.n * sizeof *ids.end);
}

/* More of a text, or with `last` the end of it: how many bytes are done. */
static size_t
tokenize(const char *p, size_t n, bool last)
{
	struct pico_err err = {0};
	size_t used, i = ids.n;

	if (!text.begun)
		begin_text();
	if (pico_tokenize_part(tokenizer, p, n, last, &used, &ids, &err) < 0)
		cmd_die(&err);
	for (; ids.end != NULL && i < ids.n; i++)
		ids.end[i] += (size_t)text.n_bytes;
	text.n_bytes += used;
	if (text.n_tokens == 0) {
		/* BOS waits for the token after it. */
		if (ids.n < 2 && !last)
			return used;
		drop_second_bos();
	}
	put_ids();
	if (last)
		end_text();
	return used;
}

static char *buf;		/* input, for all files */
static size_t cap;

/*
 * The input as it comes: with -l or -0 each text as soon as its end is there,
 * and of a long text what is decided. Of what is not, nothing is tried again
 * before there is twice as much, so that time stays linear.
 */
static void
tokenize_file(const char *operand)
{
	size_t n = 0, goal = PART, seen, from;
	char *p;
	bool split = lines || records;
	const char *name;
	int fd = cmd_open(operand, &name);
	size_t k;

	while ((k = cmd_read(fd, name, buf + n, cap - n)) != 0) {
		seen = n;
		n += k;
		from = 0;
		while (split && (p = memchr(buf + seen, lines ? '\n' : '\0',
		    n - seen)) != NULL) {
			seen = (size_t)(p - buf) + 1;
			(void)tokenize(buf + from, seen - from - !exact, true);
			from = seen;
			goal = PART;
		}
		if (n - from >= goal) {
			/* A newline may be the final one. */
			from += tokenize(buf + from, n - from - (!split &&
			    !exact && buf[n - 1] == '\n'), false);
			goal = n - from < PART / 2 ? PART : 2 * (n - from);
		}
		n -= from;
		memmove(buf, buf + from, n);
		if (n == cap) {
			p = realloc(buf, cap * 2);
			if (p == NULL)
				cmd_fail("%s: no memory for a text of %zu "
				    "bytes", name, cap * 2);
			buf = p;
			cap *= 2;
		}
	}
	if (!split && !exact && n > 0 && buf[n - 1] == '\n')
		n--;
	if (!split || n > 0 || text.begun)
		(void)tokenize(buf, n, true);
	if (fd != STDIN_FILENO)
		(void)close(fd);
}

static void
check_options(void)
{
	if (lines && records)
		cmd_usage("options -l and -0 exclude each other");
	if (binary + show + count + offsets > 1)
		cmd_usage("options -b, --show, --count and --offsets exclude "
		    "each other");
	if (binary)
		cmd_no_terminal("option -b: binary output");
	if (want_bos && (no_bos || continued))
		cmd_usage("options --bos and %s exclude each other",
		    no_bos ? "--no-bos" : "--continued");
	if (want_eos && no_eos)
		cmd_usage("options --eos and --no-eos exclude each other");
}

static void
set_flags(void)
{
	flags = pico_tokenizer_default_flags(vocab);
	if (want_bos)
		flags |= PICO_ADD_BOS;
	if (want_eos)
		flags |= PICO_ADD_EOS;
	if (no_bos || continued)
		flags &= ~(unsigned)PICO_ADD_BOS;
	if (no_eos)
		flags &= ~(unsigned)PICO_ADD_EOS;
	if (special)
		flags |= PICO_PARSE_SPECIAL;
	if (continued)
		flags |= PICO_CONTINUED;
}

int
main(int argc, char **argv)
{
	const char *path;
	int i = cmd_start(&cmd, options, argc, argv);
	struct pico_err err = {0};
	struct pico_gguf *g;
	double start = pico_seconds();

	check_options();
	path = cmd_model(model);
	cmd_confine(false);
	cmd_will_map(path);
	if (pico_gguf_open(&g, path, PICO_GGUF_HEADER, &err) < 0)
		cmd_die(&err);
	vocab = pico_vocab_open(g, pre, &err);
	if (vocab == NULL)
		cmd_die_in(path, &err);
	if (pico_vocab_note(vocab) != NULL)
		cmd_warn("%s", pico_vocab_note(vocab));
	tokenizer = pico_tokenizer_new(vocab, &err);
	if (tokenizer == NULL)
		cmd_die_in(path, &err);
	set_flags();
	if (offsets)
		ids.end = cmd_alloc(1, sizeof *ids.end);
	/* Tokens come many at a time: no write for each. */
	pico_tokens_out_init(&out, STDOUT_FILENO, binary);
	cmd_out = &out;
	out_prompt = out.prompt;
	out.prompt = false;

	cap = PART;
	buf = cmd_alloc(cap, 1);
	if (i == argc)
		tokenize_file("-");
	for (; i < argc; i++)
		tokenize_file(argv[i]);
	if (!(show || count || offsets) && pico_tokens_flush(&out, &err) < 0)
		cmd_die(&err);
	if (ids.dropped > 0)
		cmd_warn("%zu bytes left out: the vocabulary has no tokens "
		    "for them", ids.dropped);
	if (verbose)
		(void)fprintf(stderr, "texts:\t%" PRIu64 "\nbytes:\t%" PRIu64
		    "\ntokens:\t%" PRIu64 "\nseconds:\t%.3f\n", n_texts,
		    n_bytes, n_tokens, pico_seconds() - start);

	free(buf);
	free(ids.v);
	free(ids.end);
	pico_tokenizer_free(tokenizer);
	pico_vocab_close(vocab);
	pico_gguf_close(g);
	return cmd_finish(0);
}
