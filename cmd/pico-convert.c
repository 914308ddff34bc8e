/* SPDX-License-Identifier: MIT */
/* A folder as Hugging Face publishes models in, a GGUF file out. */
#include <inttypes.h>
#include <string.h>

#include "cmd.h"

static struct pico_convert_params params = { .type = "auto" };
static int64_t n_threads;
static bool dry_run, verbose;

static const struct cmd about = {
	"pico-convert",
	"[-qv] [--type TYPE] [--pre NAME] [-t N] DIR FILE\n"
	    "       pico-convert --dry-run [option ...] DIR",
	"Converts a model folder (config.json, safetensors, tokenizer) to GGUF.",
};

static const struct pico_opt options[] = {
	{ 0, "type", PICO_OPT_TEXT, &params.type, "TYPE",
	    "f32, f16, bf16, q8_0, a mix, keep or auto (auto: 16 bits)", 0, 0,
	    NULL },
	{ 0, "pre", PICO_OPT_TEXT, &params.pre, "NAME",
	    "the pre-tokenizer, where it is not recognised", 0, 0, NULL },
	{ 0, "name", PICO_OPT_TEXT, &params.name, "NAME",
	    "the model's name (that of the folder)", 0, 0, NULL },
	{ 0, "dry-run", PICO_OPT_FLAG, &dry_run, NULL,
	    "list what would be written", 0, 0, NULL },
	{ 't', "threads", PICO_OPT_INT, &n_threads, "N",
	    "threads (as many as make sense)", 1, 1024, NULL },
	{ 'v', "verbose", PICO_OPT_FLAG, &verbose, NULL,
	    "bytes, time and memory on stderr", 0, 0, NULL },
	CMD_OPTIONS
};

static void
show_progress(void *data, uint64_t done, uint64_t total)
{
	uint64_t *bytes = data;

	*bytes = total;
	cmd_progress("MB", done / 1000000, total / 1000000);
}

static void
report(uint64_t bytes, double seconds)
{
	(void)fprintf(stderr, "tensors:\t%" PRIu64 " bytes\n", bytes);
	(void)fprintf(stderr, "time:\t%.3f s, %.1f MB/s\n", seconds,
	    seconds > 0 ? (double)bytes / 1e6 / seconds : 0);
	(void)fprintf(stderr, "memory:\t%.1f MB peak\n",
	    (double)pico_peak_memory() / 1e6);
}

int
main(int argc, char **argv)
{
	int first = cmd_start(&about, options, argc, argv);
	struct pico_err err = {0};
	double start = pico_seconds();
	struct pico_convert *c;
	uint64_t bytes = 0;
	const char *dir = argv[first];

	if (argc - first != (dry_run ? 1 : 2))
		cmd_usage(dry_run ? "a folder is wanted, and nothing else" :
		    "a folder and a file to write are wanted");
	params.n_threads = (uint32_t)n_threads;
	cmd_confine(!dry_run);
	cmd_will_map(dir);
	cmd_will_write();
	c = pico_convert_open(dir, &params, &err);
	if (c == NULL && err.status == PICO_USAGE)
		cmd_die(&err);
	if (c == NULL)
		cmd_die_in(dir, &err);
	if (dry_run)
		pico_convert_list(c, stdout);
	else if (pico_convert_write(c, argv[first + 1], show_progress,
	    &bytes, &err) < 0)
		cmd_die(&err);
	cmd_progress_end();
	if (verbose && !dry_run)
		report(bytes, pico_seconds() - start);
	pico_convert_close(c);
	return cmd_finish(0);
}
