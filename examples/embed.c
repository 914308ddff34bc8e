/* SPDX-License-Identifier: MIT */
/*
 * A program of its own with libpico: continues its argument by 20 tokens.
 *
 *     cc embed.c -o embed $(pkg-config --cflags --libs pico)
 *     ./embed model.gguf 'Once upon a time'
 */
#include <pico.h>
#include <stdlib.h>
#include <string.h>

/* Where the text goes. */
struct printer {
	struct pico_detok detok;
	char *piece;
};

static int
print_token(void *data, int32_t id, struct pico_err *err)
{
	struct printer *p = data;

	(void)err;
	(void)fwrite(p->piece, 1, pico_detok_token(&p->detok, id, p->piece),
	    stdout);
	return 0;
}

static int
print_end(void *data, enum pico_reason reason, struct pico_err *err)
{
	(void)data;
	(void)reason;
	(void)err;
	(void)putchar('\n');
	return 0;
}

int
main(int argc, char **argv)
{
	/* one of the 40 best tokens, at temperature 0.8 */
	static const struct pico_step steps[] = {
		{ .kind = PICO_S_TOP_K, .n = 40 },
		{ .kind = PICO_S_TEMP, .a = 0.8 },
	};
	const struct pico_gen_params params = {
		.chain = { .steps = steps, .n_steps = 2 }, .n_max = 20,
	};
	const struct pico_ctx_params size = {0};	/* all by default */
	struct printer printer = {0};
	const struct pico_gen_sink sink = { print_token, print_end, &printer };
	struct pico_err err = {0};
	struct pico_ids ids = {0};
	struct pico_gguf *gguf = NULL;
	struct pico_vocab *vocab = NULL;
	struct pico_tokenizer *tokenizer = NULL;
	struct pico_model *model = NULL;
	struct pico_ctx *ctx = NULL;
	struct pico_gen *gen = NULL;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: embed model.gguf text\n");
		return PICO_USAGE;
	}
	if (pico_gguf_open(&gguf, argv[1], 0, &err) < 0 ||
	    (vocab = pico_vocab_open(gguf, NULL, &err)) == NULL ||
	    (tokenizer = pico_tokenizer_new(vocab, &err)) == NULL ||
	    (model = pico_model_open(gguf, &err)) == NULL ||
	    (ctx = pico_ctx_new(model, &size, &err)) == NULL ||
	    (gen = pico_gen_new(ctx, vocab, &params, &sink, &err)) == NULL ||
	    pico_tokenize(tokenizer, argv[2], strlen(argv[2]),
	    pico_tokenizer_default_flags(vocab), &ids, &err) < 0)
		goto out;
	pico_detok_init(&printer.detok, vocab, false, false);
	pico_detok_start(&printer.detok);
	printer.piece = malloc(pico_vocab_piece_max(vocab) + 1);
	if (printer.piece == NULL) {
		err = (struct pico_err){ PICO_ERROR, "no memory" };
		goto out;
	}
	if (pico_gen_add(gen, ids.v, ids.n, true, &err) < 0)
		goto out;
	while (pico_gen_busy(gen) > 0)
		if (pico_gen_step(gen, &err) < 0)
			break;
out:
	if (err.status != PICO_OK)
		(void)fprintf(stderr, "embed: %s\n", err.msg);
	free(printer.piece);
	free(ids.v);
	pico_gen_free(gen);
	pico_ctx_free(ctx);
	pico_model_close(model);
	pico_tokenizer_free(tokenizer);
	pico_vocab_close(vocab);
	pico_gguf_close(gguf);
	return err.status;
}
