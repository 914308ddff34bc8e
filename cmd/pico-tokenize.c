/* SPDX-License-Identifier: MIT */
/* pico-tokenize: text to tokens. */
#include <errno.h>
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

static void
print_piece(int32_t id)
{
	struct pico_str s = pico_vocab_text(vocab, id);
	size_t size = s.n * 4 + 1;
	char *text = cmd_alloc(size, 1);

	(void)pico_escape(text, size, s.p, s.n);
	(void)printf("%" PRId32 "\t%s\t%s\n", id, pico_token_type_name(
	    pico_vocab_type(vocab, id)), text);
	free(text);
}

static void
print_tables(void)
{
	size_t i, from = 0;

	if (count) {
		(void)printf("%zu\n", ids.n);
	} else if (n_texts > 1) {
		(void)putchar('\n');
	}
	for (i = 0; i < ids.n && !count; i++) {
		if (show) {
			print_piece(ids.v[i]);
		} else {
			(void)printf("%" PRId32 "\t%zu\t%zu\n", ids.v[i], from,
			    ids.end[i]);
			from = ids.end[i];
		}
	}
	if (out_prompt)
		cmd_flush();
}

static void
put_tokens(void)
{
	struct pico_err err = {0};
	size_t i;

	for (i = 0; i < ids.n; i++)
		if (pico_tokens_put(&out, ids.v[i], &err) < 0)
			cmd_die(&err);
	if (pico_tokens_end(&out, PICO_END_LIMIT, &err) < 0 ||
	    (out_prompt && pico_tokens_flush(&out, &err) < 0))
		cmd_die(&err);
}

static void
tokenize(const char *text, size_t n)
{
	int32_t bos = pico_vocab_special(vocab)->bos;
	struct pico_err err = {0};

	ids.n = 0;
	if (pico_tokenize(tokenizer, text, n, flags, &ids, &err) < 0)
		cmd_die(&err);
	/* The text may bring its own BOS: never two. */
	if ((flags & PICO_ADD_BOS) && ids.n > 1 && ids.v[1] == bos) {
		ids.n--;
		memmove(ids.v, ids.v + 1, ids.n * sizeof *ids.v);
		if (ids.end != NULL)
			memmove(ids.end, ids.end + 1,
			    ids.n * sizeof *ids.end);
	}
	n_texts++;
	n_bytes += n;
	n_tokens += ids.n;
	if (show || count || offsets)
		print_tables();
	else
		put_tokens();
}

/* The input as it comes: each text as soon as its end is there. */
static void
tokenize_each(int fd, const char *name, char end)
{
	size_t n = 0, seen = 0, cap = 65536, from;
	char *buf = cmd_alloc(cap, 1), *p;
	ssize_t k;

	for (;;) {
		if (n == cap) {
			cap *= 2;
			p = realloc(buf, cap);
			if (p == NULL)
				cmd_fail("%s: no memory for a text of %zu "
				    "bytes", name, cap);
			buf = p;
		}
		k = read(fd, buf + n, cap - n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			cmd_fail("read error on %s: %s", name,
			    strerror(errno));
		if (k == 0)
			break;
		n += (size_t)k;
		from = 0;
		while ((p = memchr(buf + seen, end, n - seen)) != NULL) {
			seen = (size_t)(p - buf) + 1;
			tokenize(buf + from, seen - from - !exact);
			from = seen;
		}
		n -= from;
		memmove(buf, buf + from, n);
		seen = n;
	}
	if (n > 0)
		tokenize(buf, n);
	free(buf);
}

static void
tokenize_file(const char *operand)
{
	const char *name;
	char *text;
	size_t n;
	int fd = cmd_open(operand, &name);

	if (lines || records) {
		tokenize_each(fd, name, lines ? '\n' : '\0');
	} else {
		text = cmd_read_all(fd, name, &n);
		if (!exact && n > 0 && text[n - 1] == '\n')
			n--;
		tokenize(text, n);
		free(text);
	}
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
	/* A text is whole before its first token is known: one write each. */
	pico_tokens_out_init(&out, STDOUT_FILENO, binary);
	cmd_out = &out;
	out_prompt = out.prompt;
	out.prompt = false;

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

	free(ids.v);
	free(ids.end);
	pico_tokenizer_free(tokenizer);
	pico_vocab_close(vocab);
	pico_gguf_close(g);
	return cmd_finish(0);
}
