/* SPDX-License-Identifier: MIT */
/* pico-detokenize: tokens to text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

static const struct cmd cmd = {
	"pico-detokenize",
	"[-x | -0 | --json] [-kSv] [--session] [-m model] [file ...]",
	"Writes the text of each sequence of tokens."
};

static const char *model;
static bool exact, null, json, special, keep_space, session, clean, verbose;

static const struct pico_opt options[] = {
	{ 'm', "model", PICO_OPT_TEXT, &model, "FILE",
	    "the model (default: $PICO_MODEL)", 0, 0, NULL },
	{ 'x', "exact", PICO_OPT_FLAG, &exact, NULL,
	    "add nothing after a text", 0, 0, NULL },
	{ '0', "null", PICO_OPT_FLAG, &null, NULL,
	    "end each text with NUL, not a newline", 0, 0, NULL },
	{ 0, "json", PICO_OPT_FLAG, &json, NULL,
	    "write each text as a JSON string on a line", 0, 0, NULL },
	{ 'S', "special", PICO_OPT_FLAG, &special, NULL,
	    "write control tokens too, and every piece as it is", 0, 0, NULL },
	{ 'k', "keep-space", PICO_OPT_FLAG, &keep_space, NULL,
	    "keep the space that tokenizing put in front", 0, 0, NULL },
	{ 0, "session", PICO_OPT_FLAG, &session, NULL,
	    "all sequences are parts of one text", 0, 0, NULL },
	{ 0, "clean-spaces", PICO_OPT_FLAG, &clean, NULL,
	    "remove spaces before punctuation (lossy)", 0, 0, NULL },
	{ 'v', "verbose", PICO_OPT_FLAG, &verbose, NULL,
	    "statistics on standard error", 0, 0, NULL },
	CMD_OPTIONS
};

static struct pico_vocab *vocab;
static struct pico_detok detok;
static char *piece;
static bool prompt;		/* write before waiting for more input */
static bool begun;		/* something of the current text was read */
static uint64_t n_texts, n_tokens, n_bytes;

/* With --clean-spaces: the text so far. */
static char *text;
static size_t n_text, cap_text;

/* With --json: the beginning of a character whose end is still to come. */
static unsigned char tail[4];
static size_t n_tail;

/* ---- JSON strings ---- */

/* Length of the UTF-8 character that p begins; 0: none; -1: it is not yet
   complete. */
static int
character(const unsigned char *p, size_t n)
{
	unsigned char lo = 0x80, hi = 0xbf;	/* of the second byte */
	size_t len, i;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	switch (p[0]) {
	case 0xe0: lo = 0xa0; break;	/* no over-long forms */
	case 0xed: hi = 0x9f; break;	/* no surrogates */
	case 0xf0: lo = 0x90; break;
	case 0xf4: hi = 0x8f; break;	/* nothing above U+10FFFF */
	}
	for (i = 1; i < len && i < n; i++) {
		if (p[i] < lo || p[i] > hi)
			return 0;
		lo = 0x80;
		hi = 0xbf;
	}
	return i < len ? -1 : (int)len;
}

static void
json_character(const unsigned char *p, size_t len)
{
	if (len == 0)
		(void)fputs("\xef\xbf\xbd", stdout);	/* U+FFFD */
	else if (*p == '"' || *p == '\\')
		(void)printf("\\%c", *p);
	else if (*p == '\n')
		(void)fputs("\\n", stdout);
	else if (*p < 0x20)
		(void)printf("\\u%04x", *p);
	else
		(void)fwrite(p, 1, len, stdout);
}

static void
json_bytes(const char *p, size_t n)
{
	int len;

	while (n-- > 0) {
		tail[n_tail++] = (unsigned char)*p++;
		/* At most a few rounds: what was kept was no character. */
		while (n_tail > 0 && (len = character(tail, n_tail)) >= 0) {
			size_t used = len > 0 ? (size_t)len : 1;

			json_character(tail, (size_t)len);
			n_tail -= used;
			memmove(tail, tail + used, n_tail);
		}
	}
}

static void
json_end(void)
{
	for (; n_tail > 0; n_tail--)
		json_character(tail, 0);
}

/* ---- output ---- */

static void
put(const char *p, size_t n)
{
	if (n == 0)
		return;
	n_bytes += n;
	if (json)
		json_bytes(p, n);
	else
		(void)fwrite(p, 1, n, stdout);
}

static void
keep(const char *p, size_t n)
{
	size_t want = n_text + n;
	char *grown;

	if (want > cap_text) {
		want *= 2;
		grown = realloc(text, want);
		if (grown == NULL)
			cmd_fail("no memory for a text of %zu bytes", want);
		text = grown;
		cap_text = want;
	}
	if (n > 0)
		memcpy(text + n_text, p, n);
	n_text += n;
}

static void
begin_text(void)
{
	if (begun)
		return;
	begun = true;
	pico_detok_start(&detok);
	if (json)
		(void)putchar('"');
}

static void
end_text(void)
{
	begin_text();	/* it may be empty */
	if (clean)
		put(text, pico_clean_spaces(text, n_text));
	n_text = 0;
	begun = false;
	n_texts++;
	if (json) {
		json_end();
		(void)fputs("\"\n", stdout);
	} else if (!exact) {
		(void)putchar(null ? '\0' : '\n');
	}
}

static void
token(const struct pico_tokens_in *in, int32_t id)
{
	char place[300];
	size_t n;

	if (id >= pico_vocab_n(vocab)) {
		cmd_flush();
		(void)pico_tokens_place(in, place, sizeof place);
		cmd_fail("%s: token %" PRId32 " is out of range, the "
		    "vocabulary has %" PRId32, place, id, pico_vocab_n(vocab));
	}
	n = pico_detok_token(&detok, id, piece);
	n_tokens++;
	if (clean)
		keep(piece, n);
	else if (n > 0)
		put(piece, n);
}

static void
detokenize(const char *operand)
{
	struct pico_err err = {0};
	struct pico_tokens_in *in;
	const char *name;
	int32_t value;
	int event, fd = cmd_open(operand, &name);

	in = pico_tokens_open(fd, name, &err);
	if (in == NULL)
		cmd_die(&err);
	while ((event = pico_tokens_next(in, &value, &err)) > 0) {
		begin_text();
		if (event == PICO_TOKEN)
			token(in, value);
		else if (!session)
			end_text();
		if (prompt && !pico_tokens_buffered(in))
			cmd_flush();
	}
	if (event < 0)
		cmd_die(&err);
	pico_tokens_close(in);
	if (fd != STDIN_FILENO)
		(void)close(fd);
}

int
main(int argc, char **argv)
{
	const char *path;
	int i = cmd_start(&cmd, options, argc, argv);
	struct pico_err err = {0};
	struct pico_gguf *g;
	struct stat st = {0};
	double start = pico_seconds();

	if (exact + null + json > 1)
		cmd_usage("options -x, -0 and --json exclude each other");
	path = cmd_model(model);
	cmd_confine(false);
	cmd_will_map(path);
	if (pico_gguf_open(&g, path, PICO_GGUF_HEADER, &err) < 0)
		cmd_die(&err);
	vocab = pico_vocab_open(g, NULL, &err);
	if (vocab == NULL)
		cmd_die_in(path, &err);
	if (pico_vocab_piece_max(vocab) == 0)
		cmd_fail("the model has no tokenizer: its tokens have no "
		    "texts");
	piece = cmd_alloc(pico_vocab_piece_max(vocab), 1);
	pico_detok_init(&detok, vocab, special, keep_space);
	prompt = fstat(STDOUT_FILENO, &st) == 0 && !S_ISREG(st.st_mode);

	if (i == argc)
		detokenize("-");
	for (; i < argc; i++)
		detokenize(argv[i]);
	if (session && begun)
		end_text();
	cmd_flush();
	if (verbose)
		(void)fprintf(stderr, "texts:\t%" PRIu64 "\ntokens:\t%" PRIu64
		    "\nbytes:\t%" PRIu64 "\nseconds:\t%.3f\n", n_texts,
		    n_tokens, n_bytes, pico_seconds() - start);

	free(piece);
	free(text);
	pico_vocab_close(vocab);
	pico_gguf_close(g);
	return cmd_finish(0);
}
