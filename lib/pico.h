/* SPDX-License-Identifier: MIT */
/*
 * pico: run GGUF language models on the CPU. The one public header.
 *
 * Conventions of every function here:
 * - int functions return 0 (or a documented non-negative value) on success and
 *   -1 on failure; pointer functions return NULL on failure. A failure fills in
 *   *err: one line, lower case, without the program's name. Nothing here prints
 *   or exits.
 * - Text is bytes with a length, never terminated, in any encoding.
 * - Vectors and matrices are row-major float32; a weight of shape
 *   {n_in, n_out} is n_out rows of n_in values, as in the GGUF file.
 * - What a function returns belongs to the caller and is freed by the matching
 *   ..._close or ..._free, unless the comment says it is borrowed. Those take
 *   NULL too.
 */
#ifndef PICO_H
#define PICO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PICO_VERSION "0.1.0"

/* ---- errors ------------------------------------------------------------ */

/* Exit statuses of the programs, and err->status of the library. */
enum pico_status {
	PICO_OK = 0,
	PICO_ERROR = 1,	/* bad input, bad model, failed read or write */
	PICO_USAGE = 2,	/* what the caller asked for makes no sense */
	PICO_CUT = 3	/* constrained output cut off by a limit */
};

struct pico_err {
	int status;	/* PICO_OK until something failed */
	char msg[500];	/* terminated; one line, control bytes escaped */
};

/* Fills in *err, unless an error is in it already, and returns -1; for those
   who write functions of the same convention. err may be NULL. */
int pico_fail(struct pico_err *err, enum pico_status status, const char *fmt,
    ...)
#ifdef __GNUC__
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Bytes with a length. Borrowed from whatever they point into. */
struct pico_str {
	const char *p;
	size_t n;
};

/* Compares with a terminated string. */
bool pico_str_is(struct pico_str s, const char *text);

/* Order by bytes: below 0, 0 or above 0. */
int pico_str_compare(struct pico_str a, struct pico_str b);

/* Bytes of the well-formed UTF-8 character that p begins with (RFC 3629); 0 if
   it begins with none. n >= 1. */
size_t pico_utf8_len(const char *p, size_t n);

/*
 * Writes n bytes as printable text: \\ \t \n \r \xHH for control bytes and for
 * bytes that are not valid UTF-8, everything else as it is. Writes at most
 * size - 1 bytes and a terminator; returns the length the whole would have.
 */
size_t pico_escape(char *out, size_t size, const char *p, size_t n);

/* ---- numbers and options of the programs ------------------------------- */

/* Whole decimal number in min..max; the whole of text or failure. */
int pico_parse_int(const char *text, int64_t min, int64_t max, int64_t *out,
    struct pico_err *err);
/* Finite decimal number in min..max, always with a point, never a comma. */
int pico_parse_real(const char *text, double min, double max, double *out,
    struct pico_err *err);
/* Bytes: a whole number, or one with a suffix K, M, G (powers of 1024). */
int pico_parse_size(const char *text, uint64_t *out, struct pico_err *err);

enum pico_opt_kind {
	PICO_OPT_END = 0,
	PICO_OPT_FLAG,	/* bool *: set to true */
	PICO_OPT_OFF,	/* bool *: set to false */
	PICO_OPT_INT,	/* int64_t *, within min..max */
	PICO_OPT_TEXT,	/* const char ** */
	PICO_OPT_LIST,	/* struct pico_list *: may be given several times */
	PICO_OPT_SIZE,	/* uint64_t *: bytes with suffix */
	PICO_OPT_CALL	/* what the row's function makes of it */
};

struct pico_list {
	const char **v;	/* n borrowed strings; free(v) when done */
	size_t n;
};

struct pico_opt;
/* Puts an argument where o->to points, or fails. */
typedef int pico_opt_fn(const struct pico_opt *o, const char *arg,
    struct pico_err *err);
/* One of them: a double, within min..max. It is no kind because what reads
   numbers with a point is large, and few programs have such options. */
pico_opt_fn pico_opt_real;

/* One row of a program's option table; the table ends with kind 0. */
struct pico_opt {
	char ch;		/* short letter, or 0 */
	const char *name;	/* long name without the dashes, or NULL */
	enum pico_opt_kind kind;
	void *to;		/* where the value goes; see the kinds */
	const char *arg;	/* the argument's name in the help, or NULL */
	const char *help;	/* one line; NULL: not shown */
	double min, max;	/* for INT and pico_opt_real; both 0: 0..INT32_MAX,
				   any finite number */
	pico_opt_fn *fn;	/* for CALL */
};

/*
 * Parses argv by the table: short letters may be grouped and take their
 * argument attached or apart, long ones as --name=value or --name value,
 * operands may stand between options, `--` ends the options. Operands are moved
 * to the end of argv; returns the index of the first one, or -1: err->status is
 * PICO_USAGE if it is the user's fault.
 */
int pico_options(const struct pico_opt *table, int argc, char **argv,
    struct pico_err *err);
/* Prints one line an option, from the same table. */
void pico_options_help(const struct pico_opt *table, FILE *out);

/* ---- GGUF files -------------------------------------------------------- */

/* Types of metadata values (GGUF specification, "gguf_metadata_value_type"). */
enum pico_kv_type {
	PICO_KV_U8, PICO_KV_I8, PICO_KV_U16, PICO_KV_I16, PICO_KV_U32,
	PICO_KV_I32, PICO_KV_F32, PICO_KV_BOOL, PICO_KV_STR, PICO_KV_ARR,
	PICO_KV_U64, PICO_KV_I64, PICO_KV_F64, PICO_KV_N
};
#define PICO_KV_DEPTH 16	/* levels of arrays in arrays, at most */

/* One key and its value, in place in the mapped file. */
struct pico_kv {
	struct pico_str key;
	uint32_t type;		/* enum pico_kv_type */
	uint32_t elem;		/* type of the elements, if an array */
	uint64_t n;		/* elements of an array, bytes of a string, else 1 */
	const uint8_t *data;	/* first byte of the value proper (past the
				   lengths and counts); not aligned */
	uint64_t offset;	/* of data in its file */
	uint64_t bytes;		/* of data */
	uint32_t wide;		/* bytes of a length inside data: 8; 4 in v1 */
	int shard;		/* which file of a split set, from 0 */
};

/* One tensor of the table. */
struct pico_tensor {
	struct pico_str name;
	uint32_t type;		/* id of a struct pico_type */
	uint32_t n_dims;	/* 1..4 */
	uint64_t dims[4];	/* dims[0] is contiguous; missing ones are 1 */
	uint64_t offset;	/* relative to the data section of its file */
	uint64_t bytes;
	const uint8_t *data;	/* mapped, or NULL if only the header was read */
	int shard;
};

/* A storage type of tensors (reference: the GGUF type table). */
struct pico_type {
	uint32_t id;
	const char *name;	/* "Q4_K" */
	uint32_t block;		/* elements a block */
	uint32_t bytes;		/* bytes a block */
};

/* NULL if the id is unknown or was removed from the format. */
const struct pico_type *pico_type(uint32_t id);
/* By name, case ignored; NULL if there is none. */
const struct pico_type *pico_type_named(const char *name);
/* "Q4_K_M", ... of the key general.file_type; NULL for an unknown one. */
const char *pico_file_type_name(int64_t id);
/* "u32", "str", "arr", ...; NULL for an unknown one. */
const char *pico_kv_type_name(uint32_t type);
/*
 * n values (a whole number of blocks) of a type to float32, exactly: the real
 * value of the format's formula rounded once. Integer types too. Returns -1
 * for a type that cannot be turned into numbers.
 */
int pico_dequantize(uint32_t type, const void *src, float *dst, size_t n);
/*
 * How many of the blocks of n values have a scale (or, without blocks, a value)
 * that is NaN or infinite; *first is then the number of the first one, from 0.
 */
uint64_t pico_bad_blocks(uint32_t type, const void *src, uint64_t n,
    uint64_t *first);

struct pico_stats {
	uint64_t n, n_nan, n_inf;
	double min, max, mean, rms;	/* of the finite values; 0 if none */
};
/* Statistics of n values (whole blocks); -1 as in pico_dequantize(). */
int pico_stats(uint32_t type, const void *src, uint64_t n,
    struct pico_stats *out);

enum {
	PICO_GGUF_HEADER = 1,	/* tensor data is not needed and not checked */
	PICO_GGUF_ALONE = 2,	/* one file of a split set, by itself */
	PICO_GGUF_PARTIAL = 4	/* on failure keep what was read so far */
};

struct pico_gguf;

/*
 * Opens a model file and, unless told otherwise, all files of its split set.
 * "-" reads a header from standard input. Every size, offset, count and type is
 * checked here, so that nothing in the result points outside the file. With
 * PICO_GGUF_PARTIAL *out may be set although -1 is returned: close it then too.
 */
int pico_gguf_open(struct pico_gguf **out, const char *path, unsigned flags,
    struct pico_err *err);
void pico_gguf_close(struct pico_gguf *g);

struct pico_gguf_info {
	const char *path;
	uint32_t version, alignment;
	uint64_t file_size;		/* of this file; what was read, if a pipe */
	uint64_t n_kv, n_tensors;	/* as the header announces them */
	uint64_t data_offset;		/* start of the data section; 0 if none */
	uint64_t identity;		/* changes when the file does, and when
					   it is copied */
};

/* Fails if a file was written to since it was opened. Costs next to nothing. */
int pico_gguf_check(const struct pico_gguf *g, struct pico_err *err);

int pico_gguf_n_shards(const struct pico_gguf *g);
struct pico_gguf_info pico_gguf_info(const struct pico_gguf *g, int shard);
/* All keys and tensors, those of every file of a set in order; borrowed. */
size_t pico_gguf_n_kv(const struct pico_gguf *g);
const struct pico_kv *pico_gguf_kv(const struct pico_gguf *g, size_t i);
size_t pico_gguf_n_tensors(const struct pico_gguf *g);
const struct pico_tensor *pico_gguf_tensor(const struct pico_gguf *g, size_t i);
/* By name; NULL if there is none. */
const struct pico_kv *pico_gguf_find(const struct pico_gguf *g,
    const char *key);
const struct pico_tensor *pico_gguf_find_tensor(const struct pico_gguf *g,
    const char *name);

/*
 * Typed reading of values. A missing key leaves *out alone and returns 0; a
 * found one returns 1; a wrong type or a value out of range fails with the key
 * and what it holds. Any integer type will do for int, float or double for
 * real, bool or an integer 0 or 1 for bool.
 */
int pico_gguf_int(const struct pico_gguf *g, const char *key, int64_t min,
    int64_t max, int64_t *out, struct pico_err *err);
int pico_gguf_real(const struct pico_gguf *g, const char *key, double *out,
    struct pico_err *err);
int pico_gguf_bool(const struct pico_gguf *g, const char *key, bool *out,
    struct pico_err *err);
int pico_gguf_str(const struct pico_gguf *g, const char *key,
    struct pico_str *out, struct pico_err *err);
/*
 * Element i of a scalar (i = 0) or of an array of numbers; integers, floats and
 * bools alike. The caller has checked i < n.
 */
int64_t pico_kv_int_at(const struct pico_kv *kv, uint64_t i);
double pico_kv_real_at(const struct pico_kv *kv, uint64_t i);
/*
 * Walks an array of strings: starts with *pos = 0, returns the next one and
 * moves *pos on (a byte offset into data). The caller counts to n.
 */
struct pico_str pico_kv_str_next(const struct pico_kv *kv, uint64_t *pos);
/* The same for an array of arrays; they come as if they were values of keys. */
struct pico_kv pico_kv_arr_next(const struct pico_kv *kv, uint64_t *pos);

/* ---- writing GGUF files ------------------------------------------------ */

/*
 * A file to be: first its keys and its tensors in the order of the file, then
 * begin, then the data of all tensors. It has version 3, gapless offsets in
 * multiples of general.alignment, and depends on nothing else: the same calls
 * give the same bytes. Until it is ended it has a temporary name in the directory
 * of its own, and a file that was there before stays.
 */
struct pico_writer;
struct pico_writer *pico_writer_new(struct pico_err *err);
/* Removes a file that was begun and not ended. */
void pico_writer_free(struct pico_writer *w);

/* Keys; everything is copied. One that is there gets the new value in its
   place. */
int pico_writer_int(struct pico_writer *w, const char *key, uint32_t type,
    int64_t v, struct pico_err *err);	/* integers and bool; checks the range */
int pico_writer_real(struct pico_writer *w, const char *key, uint32_t type,
    double v, struct pico_err *err);	/* F32 or F64 */
int pico_writer_str(struct pico_writer *w, const char *key, struct pico_str v,
    struct pico_err *err);
/* n numbers or bools as a C array of uint8_t, ..., double has them. */
int pico_writer_array(struct pico_writer *w, const char *key, uint32_t elem,
    uint64_t n, const void *v, struct pico_err *err);
int pico_writer_strs(struct pico_writer *w, const char *key, uint64_t n,
    const struct pico_str *v, struct pico_err *err);
/* A key of a file that was read. */
int pico_writer_copy(struct pico_writer *w, const struct pico_kv *kv,
    struct pico_err *err);
/* All keys of the first file of a set, but for split.*. */
int pico_writer_copy_all(struct pico_writer *w, const struct pico_gguf *g,
    struct pico_err *err);
/* False if there is no such key. */
bool pico_writer_delete(struct pico_writer *w, const char *key);
bool pico_writer_has(struct pico_writer *w, const char *key);
/* It keeps its place. */
int pico_writer_rename(struct pico_writer *w, const char *from, const char *to,
    struct pico_err *err);
/*
 * A key by text: spec is "TYPE:VALUE" or "TYPE@FILE", where the value is in a file
 * (less one newline at its end). TYPE is that of a scalar, or with [] behind it
 * that of the elements of an array, whose value is JSON.
 */
int pico_writer_set(struct pico_writer *w, const char *key, const char *spec,
    struct pico_err *err);
/* From now on the open file g is as if it had the keys of w, which must outlive it
   unchanged: to try what would become of it. */
int pico_gguf_set_keys(struct pico_gguf *g, const struct pico_writer *w,
    struct pico_err *err);
/*
 * Gives the file g (one alone, still as it was opened) the keys of w without
 * making it anew: 1; or 0, and nothing was done, if that cannot be, because they
 * have another length than its own or data would have to move.
 */
int pico_writer_patch(struct pico_writer *w, const struct pico_gguf *g,
    struct pico_err *err);

/* The next tensor; the name is copied. */
int pico_writer_tensor(struct pico_writer *w, struct pico_str name,
    uint32_t type, uint32_t n_dims, const uint64_t *dims,
    struct pico_err *err);
/* Bytes that the file will have. */
int pico_writer_size(struct pico_writer *w, uint64_t *bytes,
    struct pico_err *err);
/* Makes the file and writes all that comes before the data. Keys and tensors
   must not be added or changed any more. */
int pico_writer_begin(struct pico_writer *w, const char *path,
    struct pico_err *err);
/* Data of the tensors, one after the other, in pieces of any size; what must be
   between them comes by itself. */
int pico_writer_data(struct pico_writer *w, const void *data, uint64_t n,
    struct pico_err *err);
/* The data of a tensor as they are. */
int pico_writer_copy_data(struct pico_writer *w, const struct pico_tensor *t,
    struct pico_err *err);
/* Puts the complete file on the disk, still under its temporary name; for those
   who have several files to end. */
int pico_writer_sync(struct pico_writer *w, struct pico_err *err);
/* The same, if it was not done, and gives it its name. */
int pico_writer_end(struct pico_writer *w, struct pico_err *err);

/* Removes all files of this process that were begun and have no name yet; to be
   called before an early end, also from a signal handler. */
void pico_remove_unfinished(void);

/* ---- quantizing -------------------------------------------------------- */

/* Whether numbers can be turned into that type. */
bool pico_can_quantize(uint32_t type);

/* Threads and work space; used by one thread of the caller at a time. */
struct pico_quantizer;
/* n_threads 0: as many as make sense. */
struct pico_quantizer *pico_quantizer_new(uint32_t n_threads,
    struct pico_err *err);
void pico_quantizer_free(struct pico_quantizer *q);

/* Rows, one after the other, that are to become another type. */
struct pico_rows {
	uint32_t from, to;	/* types; n is whole blocks of both */
	const void *src;
	size_t n, n_rows;	/* values of a row, rows */
	const float *importance;	/* NULL, or n numbers >= 0: the mean
					   square of what the values of a column
					   are multiplied with */
};
/* What it did to them: sums of squares of the values and of the errors. */
struct pico_quant_error {
	uint64_t n;
	double square, error;
};
/*
 * Writes them to dst; the same bytes for any number of threads, on every machine.
 * NaN, infinite values and those that the type cannot hold are refused. What is
 * done is added to *sums, if that is not NULL.
 */
int pico_quantize(struct pico_quantizer *q, const struct pico_rows *r,
    void *dst, struct pico_quant_error *sums, struct pico_err *err);
/* The data of a tensor, in pieces, to a file; importance: dims[0] numbers for
   each matrix of dims[1] rows, or NULL. */
int pico_quantize_tensor(struct pico_quantizer *q, const struct pico_tensor *t,
    uint32_t to, const float *importance, struct pico_writer *w,
    struct pico_quant_error *sums, struct pico_err *err);

/* A standard mix: a type for most matrices, others for some. */
struct pico_mix {
	const char *name;	/* "Q4_K_M" */
	int64_t file_type;	/* value of general.file_type */
	uint32_t type;		/* of most */
	int kind;		/* private */
};
/* All of them, from 0; NULL after the last. By name, case ignored, or NULL. */
const struct pico_mix *pico_mix(size_t i);
const struct pico_mix *pico_mix_named(const char *name);
/* What else decides. */
struct pico_mix_model {
	struct pico_str arch;
	int64_t n_layer, n_head, n_head_kv, n_expert;
	bool importance;	/* there is an importance matrix */
};
/* Whether a mix gives that tensor another type at all: matrices that are not
   small. */
bool pico_mix_takes(const struct pico_tensor *t);
/*
 * The types that n tensors get, in types[]; those that it does not take keep
 * theirs. Where rows are not whole blocks of the type it is another, with more
 * bits.
 */
int pico_mix_types(const struct pico_mix *m, const struct pico_mix_model *model,
    const struct pico_tensor *t, size_t n, uint32_t *types,
    struct pico_err *err);
/* That other type, for rows of so many values; the same if they fit. */
uint32_t pico_fit_type(uint32_t type, uint64_t row);

/* Importance matrices: what the columns of matrices were multiplied with, from
   files in GGUF or in the older form. */
struct pico_imatrix;
struct pico_imatrix *pico_imatrix_open(const char *path,
    struct pico_err *err);
void pico_imatrix_close(struct pico_imatrix *m);
struct pico_imatrix_info {
	size_t n_entries;
	int64_t n_chunks;
	struct pico_str dataset;	/* what it was made with; borrowed */
};
struct pico_imatrix_info pico_imatrix_info(const struct pico_imatrix *m);
/* The importance of a tensor's columns, for pico_quantize_tensor(): 1; or 0 and
   NULL, if there is none. Borrowed until the next call. Fails if it is for
   another shape, or not finite. */
int pico_imatrix_find(struct pico_imatrix *m, const struct pico_tensor *t,
    const float **out, struct pico_err *err);

/* ---- models of Hugging Face --------------------------------------------- */

/*
 * A folder with config.json, weights in safetensors and a tokenizer, on its way
 * to a GGUF file. Opening reads and checks everything but the weights
 * themselves.
 */
struct pico_convert;
struct pico_convert_params {
	const char *type;	/* name of a mix ("f16", "Q4_K_M"), "keep" (what
				   they are in the folder) or "auto" (16 bits,
				   of the kind that is in the folder) */
	const char *pre;	/* the pre-tokenizer's name; NULL: recognised */
	const char *name;	/* general.name; NULL: that of the folder */
	uint32_t n_threads;	/* 0: as many as make sense */
};
struct pico_convert *pico_convert_open(const char *dir,
    const struct pico_convert_params *p, struct pico_err *err);
void pico_convert_close(struct pico_convert *c);
/* Prints the keys (key, type, value) and the tensors (name, type, dimensions,
   bytes) that would be written, a line each, with tabs between. */
void pico_convert_list(const struct pico_convert *c, FILE *out);
/* Bytes of tensors done, of so many. */
typedef void pico_convert_progress(void *data, uint64_t done, uint64_t total);
/* Writes the file, through a temporary name. progress may be NULL. */
int pico_convert_write(struct pico_convert *c, const char *path,
    pico_convert_progress *progress, void *data, struct pico_err *err);

/* ---- token streams (pico-stream(5)) ------------------------------------ */

/* Why a sequence ended; what a binary token stream writes. */
enum pico_reason {
	PICO_END_NONE = 0,	/* not said (text streams) */
	PICO_END_EOG = -1,	/* end-of-generation token */
	PICO_END_LIMIT = -2,	/* token limit */
	PICO_END_CONTEXT = -3,	/* context full */
	PICO_END_STOP = -4	/* stop string, stop id, finished grammar */
};

enum pico_event {
	PICO_EOF = 0,		/* no more input */
	PICO_TOKEN = 1,
	PICO_SEQ_END = 2,	/* the sequence ended */
	PICO_LINE_END = 3	/* logits: the input line ended, its sequence
				   goes on (sessions) */
};

struct pico_tokens_in;
/* fd stays the caller's; name is for messages and stays borrowed. */
struct pico_tokens_in *pico_tokens_open(int fd, const char *name,
    struct pico_err *err);
void pico_tokens_close(struct pico_tokens_in *in);
/*
 * Next event: *value is the id, or the enum pico_reason at a sequence's end.
 * Text and binary are told apart by the first byte. Blocks until what it
 * returns is decided. -1 on a fault, naming line and column or byte offset.
 */
int pico_tokens_next(struct pico_tokens_in *in, int32_t *value,
    struct pico_err *err);
/* Number, from 1, of the sequence (in text: the line) being read. */
uint64_t pico_tokens_line(const struct pico_tokens_in *in);
/* Whether something can be read without waiting (or the end was reached). */
bool pico_tokens_ready(const struct pico_tokens_in *in);
/* Whether the next event is in the buffer already: nothing has to be read, so
   there is no need to write what waits first. */
bool pico_tokens_buffered(const struct pico_tokens_in *in);
/* After a fault in a text stream: goes on at the next line. False if that
   cannot be done. */
bool pico_tokens_recover(struct pico_tokens_in *in);
/* Where the token just returned stands, for messages: "NAME: line 3, column 7"
   or "NAME: byte 12"; as snprintf(). */
int pico_tokens_place(const struct pico_tokens_in *in, char *out, size_t size);

struct pico_tokens_out {
	int fd;
	bool binary;
	bool started;	/* header written, or tokens on this line */
	bool prompt;	/* flush after every token */
	size_t n;	/* bytes waiting in buf */
	char buf[4096];
};
/* Flushes at once if fd is a pipe, terminal or socket; in blocks otherwise. */
void pico_tokens_out_init(struct pico_tokens_out *out, int fd, bool binary);
int pico_tokens_put(struct pico_tokens_out *out, int32_t id,
    struct pico_err *err);
/* Ends the sequence: newline, or the reason (NONE is written as LIMIT). */
int pico_tokens_end(struct pico_tokens_out *out, enum pico_reason reason,
    struct pico_err *err);
/* Writes what waits (and the header of an empty binary stream). */
int pico_tokens_flush(struct pico_tokens_out *out, struct pico_err *err);

/* ---- logits streams (pico-stream(5)) ----------------------------------- */

enum {
	PICO_ROW_LOGITS = 1,	/* n_vocab logits follow */
	PICO_ROW_LINE_END = 2	/* the input line ended, its sequence goes on */
};

struct pico_logits_in;
/* Reads the header; fails if it is not a logits stream. */
struct pico_logits_in *pico_logits_open(int fd, const char *name,
    struct pico_err *err);
void pico_logits_close(struct pico_logits_in *in);
uint32_t pico_logits_n_vocab(const struct pico_logits_in *in);
/* End-of-generation ids, borrowed; *n of them. */
const int32_t *pico_logits_eog(const struct pico_logits_in *in, size_t *n);
/*
 * Next event. PICO_TOKEN: *id, and *logits (n_vocab floats, valid until the
 * next call; NULL if the token is only history). PICO_SEQ_END: *id is the
 * reason. PICO_LINE_END: the line of the token before ended here; an event of
 * its own because in text it stands in the line after, and a row must not wait
 * for what follows it. Blocks until what it returns is decided, no longer. -1 on
 * a fault, naming the line or the byte.
 */
int pico_logits_next(struct pico_logits_in *in, int32_t *id,
    const float **logits, struct pico_err *err);

struct pico_logits_out {
	int fd;
	bool text;
	bool prompt;	/* flush after every row */
	uint32_t n_vocab;
	size_t n;	/* bytes waiting in buf */
	char *buf;
};
/* Writes the header. text: the text form. Rows go out at once if fd is a pipe,
   terminal or socket; in blocks otherwise. */
int pico_logits_out_open(struct pico_logits_out *out, int fd, bool text,
    uint32_t n_vocab, const int32_t *eog, size_t n_eog, struct pico_err *err);
/* flags: 0 or PICO_ROW_LINE_END. logits may be NULL: history only. */
int pico_logits_put(struct pico_logits_out *out, int32_t id, uint32_t flags,
    const float *logits, struct pico_err *err);
/* Ends the sequence (binary: NONE is written as LIMIT). */
int pico_logits_end(struct pico_logits_out *out, enum pico_reason reason,
    struct pico_err *err);
int pico_logits_flush(struct pico_logits_out *out, struct pico_err *err);
/* Frees; what was not flushed is lost. */
void pico_logits_out_close(struct pico_logits_out *out);

/* ---- vocabulary and tokenizer ------------------------------------------ */

enum pico_token_type {
	PICO_TOK_UNDEFINED, PICO_TOK_NORMAL, PICO_TOK_UNKNOWN, PICO_TOK_CONTROL,
	PICO_TOK_USER, PICO_TOK_UNUSED, PICO_TOK_BYTE
};

struct pico_vocab;

/*
 * The vocabulary of a model; g must outlive it. Cheap: no index is built. Fails
 * for a model without tokens or with a tokenizer kind or pre-tokenizer that is
 * not known. pre: NULL, or the pre-tokenizer's name to use instead.
 */
struct pico_vocab *pico_vocab_open(const struct pico_gguf *g, const char *pre,
    struct pico_err *err);
void pico_vocab_close(struct pico_vocab *v);
int32_t pico_vocab_n(const struct pico_vocab *v);
/* As stored in the file; id must be in range. */
struct pico_str pico_vocab_text(const struct pico_vocab *v, int32_t id);
enum pico_token_type pico_vocab_type(const struct pico_vocab *v, int32_t id);
float pico_vocab_score(const struct pico_vocab *v, int32_t id);
const char *pico_token_type_name(enum pico_token_type type);

struct pico_special {
	int32_t bos, eos, eot, eom, unk, sep, pad, cls, mask;	/* -1: none */
	bool add_bos, add_eos, add_sep, add_space_prefix, clean_spaces;
};
/* Borrowed; never NULL. */
const struct pico_special *pico_vocab_special(const struct pico_vocab *v);
/* All end-of-generation ids, ascending, borrowed. */
const int32_t *pico_vocab_eog(const struct pico_vocab *v, size_t *n);
bool pico_vocab_is_eog(const struct pico_vocab *v, int32_t id);

/* What a user may want to be warned of, or NULL. */
const char *pico_vocab_note(const struct pico_vocab *v);

/*
 * The bytes of one token in running text, written to buf, which has room for
 * pico_vocab_piece_max() bytes; returns how many. Control and unknown tokens
 * give nothing unless `special`. id must be in range.
 */
size_t pico_vocab_piece_max(const struct pico_vocab *v);
size_t pico_vocab_piece(const struct pico_vocab *v, int32_t id, bool special,
    char *buf);

/* The tokenizer proper: indexes built from the vocabulary. */
struct pico_tokenizer;
struct pico_tokenizer *pico_tokenizer_new(const struct pico_vocab *v,
    struct pico_err *err);
void pico_tokenizer_free(struct pico_tokenizer *t);

enum {
	PICO_PARSE_SPECIAL = 1,	/* control tokens in the text are recognised */
	PICO_ADD_BOS = 2,	/* BOS (CLS) first, even if it stands there */
	PICO_ADD_EOS = 4,	/* EOS (SEP) last */
	PICO_CONTINUED = 8	/* the text continues another: no space prefix */
};
/* The flags PICO_ADD_BOS and PICO_ADD_EOS as the model's metadata want them. */
unsigned pico_tokenizer_default_flags(const struct pico_vocab *v);

/* A growing list of ids. */
struct pico_ids {
	int32_t *v;
	size_t n, cap;
	size_t *end;	/* if not NULL (then malloc'd, with room for cap):
			   end[i] = bytes of the text used up to and including
			   token i; grows with v */
	size_t dropped;	/* counts bytes for which the vocabulary has no token
			   and which were left out */
};
/*
 * Tokenizes n bytes and appends the ids. Time grows linearly (n log n at most)
 * with the text. The list's arrays belong to the caller (free()).
 */
int pico_tokenize(struct pico_tokenizer *t, const char *text, size_t n,
    unsigned flags, struct pico_ids *out, struct pico_err *err);
/*
 * The same for a text that comes in parts. Each call appends the ids of as much
 * of the n bytes as is decided whatever follows, and tells how much that is in
 * *used, perhaps 0; the next call gets the bytes from there on, and more. With
 * `last` no more follow, and all are used. The ids of all calls are those of the
 * whole text; out->end counts from `text`. To ask again with few more bytes, of
 * which none were used, takes as long again: double them.
 */
void pico_tokenize_begin(struct pico_tokenizer *t, unsigned flags);
int pico_tokenize_part(struct pico_tokenizer *t, const char *text, size_t n,
    bool last, size_t *used, struct pico_ids *out, struct pico_err *err);

/*
 * The same for a text that was put together: where content[i] is not 0, byte i
 * is somebody's words, and no control or end-of-generation token is made of it,
 * neither of it alone nor with its neighbours; nor a user-defined one, if it is
 * more than white space and the rest of the text has it. Between such tokens all is one
 * text, whoever wrote it, as it was when the model was trained. content: n
 * bytes, or NULL for zeros.
 */
int pico_tokenize_framed(struct pico_tokenizer *t, const char *text, size_t n,
    const uint8_t *content, unsigned flags, struct pico_ids *out,
    struct pico_err *err);

/* Incremental detokenizer: bytes of each token at once. */
struct pico_detok {
	const struct pico_vocab *vocab;
	bool special;		/* render control tokens */
	bool keep_space;	/* keep the space that tokenizing put in front */
	bool at_start;		/* nothing of this sequence was seen yet */
	bool after_bos;		/* only BOS was seen */
};
void pico_detok_init(struct pico_detok *d, const struct pico_vocab *v,
    bool special, bool keep_space);
/* Starts a new sequence. */
void pico_detok_start(struct pico_detok *d);
/* buf as for pico_vocab_piece(). Returns the number of bytes. */
size_t pico_detok_token(struct pico_detok *d, int32_t id, char *buf);
/*
 * Removes, in place, the spaces that some word-based tokenizers put before
 * punctuation and contractions of a whole text; returns the new length. Lossy.
 */
size_t pico_clean_spaces(char *text, size_t n);

/* ---- chats --------------------------------------------------------------- */

/*
 * Messages and the template that frames them: text in the part of Jinja that
 * chat templates use. There are limits on nesting, steps, memory and output.
 */
struct pico_chat;

/* Copies and parses a template; a fault in it is told with line and column. */
struct pico_chat *pico_chat_new(struct pico_str text, struct pico_err *err);
void pico_chat_free(struct pico_chat *c);
/*
 * Finds a template by name: that of the model (key tokenizer.chat_template.NAME,
 * or tokenizer.chat_template if name is NULL), or else a built-in layout. g may
 * be NULL if there is a name. Returns 1; 0 if there is none. Borrowed.
 */
int pico_chat_find(const struct pico_gguf *g, const char *name,
    struct pico_str *out, struct pico_err *err);
/* Text, terminated, and name of built-in layout i; NULL behind the last. */
const char *pico_chat_layout(size_t i, const char **name);

/*
 * Appends a message, which is copied. The role becomes part of the frame and
 * must be a word of letters, digits, '_' and '-'.
 */
int pico_chat_message(struct pico_chat *c, struct pico_str role,
    struct pico_str content, struct pico_err *err);
/* The same from a JSON object with "role" and whatever else the template knows
   ("content", "tool_calls", ...), or an array of such objects. */
int pico_chat_message_json(struct pico_chat *c, struct pico_str json,
    struct pico_err *err);
size_t pico_chat_n_messages(const struct pico_chat *c);

/* What the value of a variable is. */
enum pico_chat_kind {
	PICO_CHAT_TEXT,		/* a string */
	PICO_CHAT_FRAME,	/* a string that may hold control tokens */
	PICO_CHAT_JSON,		/* JSON */
	PICO_CHAT_GUESS		/* JSON if it is that, else a string */
};
/*
 * Sets a variable of the template, name and value being copied. Those that
 * templates expect are there from the start: bos_token and eos_token empty,
 * tools and documents none; messages and add_generation_prompt are set here.
 */
int pico_chat_set(struct pico_chat *c, struct pico_str name,
    struct pico_str value, enum pico_chat_kind kind, struct pico_err *err);
/* The time that strftime_now() tells: YYYY-MM-DD, or with THH:MM or THH:MM:SS.
   Without it, the time of this machine. */
int pico_chat_date(struct pico_chat *c, const char *iso, struct pico_err *err);

enum {
	PICO_CHAT_PROMPT = 1,	/* with the beginning of the answer */
	PICO_CHAT_CONTINUE = 2,	/* only what follows the last message of the
				   role "assistant"; if there is none, one is
				   thought before the messages */
	PICO_CHAT_CUT = 4	/* that answer was cut off: pico_chat_tokenize()
				   begins with the token that ends it */
};

struct pico_chat_text {
	const char *text;
	const uint8_t *content;	/* of each byte: not 0 if it is no frame */
	size_t n;
	unsigned flags;		/* those of pico_chat_render() */
	struct pico_str frame;	/* the template */
};
/* Renders the chat; once only, as templates may change what they are given.
   The text belongs to the chat. */
int pico_chat_render(struct pico_chat *c, unsigned flags,
    struct pico_chat_text *out, struct pico_err *err);
/*
 * Appends the tokens of a rendered text. BOS comes first if the model wants it,
 * once, whether the template writes it or not. With PICO_CHAT_CONTINUE there is
 * no BOS, and an end-of-generation token right behind the answer is left out:
 * who generated the answer has it.
 */
int pico_chat_tokenize(struct pico_tokenizer *t, const struct pico_vocab *v,
    const struct pico_chat_text *text, struct pico_ids *out,
    struct pico_err *err);

/* ---- models ------------------------------------------------------------ */

struct pico_model;

/*
 * Reads the hyperparameters, finds all weights and checks every shape; refuses
 * keys and tensors that would change the result and are not understood. g must
 * outlive the model. Of a header alone it gives a model that can be planned for
 * but has no context.
 */
struct pico_model *pico_model_open(const struct pico_gguf *g,
    struct pico_err *err);
void pico_model_close(struct pico_model *m);

struct pico_model_info {
	const char *arch;
	uint32_t n_vocab, n_embd, n_layer, n_head, n_ctx_train, n_expert;
	uint64_t weight_bytes;		/* all weights a step may touch */
	uint64_t step_bytes;		/* read for one decoded token */
	const char *note;		/* what a user may want to know, or NULL */
};
struct pico_model_info pico_model_info(const struct pico_model *m);

/* Type of the values in the KV cache. */
enum pico_kv_kind { PICO_CACHE_F16, PICO_CACHE_F32, PICO_CACHE_Q8_0 };
/* "f16", "f32", "q8_0". */
const char *pico_kv_kind_name(enum pico_kv_kind kind);

struct pico_ctx_params {
	uint32_t n_ctx;		/* positions a sequence; 0: the model's, at most
				   PICO_CTX_CAP */
	uint32_t n_seq;		/* sequences at once; 0 counts as 1 */
	uint32_t n_threads;	/* 0: as many as make sense here */
	uint32_t chunk;		/* most tokens in one pass; 0: 512, or fewer
				   if memory is scarce */
	enum pico_kv_kind kv;
	uint64_t memory;	/* bytes that may stay resident, of everything;
				   0: pico_memory(); UINT64_MAX: no limit */
};
#define PICO_CTX_CAP 4096

/*
 * What a context needs, in bytes. If all of it (`whole`) is more than the
 * memory there is, only some weights are kept; the others are read from the
 * file in every pass, however many columns that has.
 */
struct pico_plan {
	uint64_t memory;	/* the limit; UINT64_MAX: none */
	uint64_t whole;		/* with all weights in memory */
	uint64_t weights;	/* of the model */
	uint64_t step;		/* of the weights that a step computes with */
	uint64_t kept;		/* of the weights that stay in memory */
	uint64_t streamed;	/* read from the file for a token; 0: none */
	uint64_t stream;	/* of buffers for that */
	uint64_t kv;		/* of the KV cache when full */
	uint64_t buffers;	/* of work space */
	uint64_t other;		/* of programs, stacks, metadata: an estimate */
	uint32_t n_ctx, n_seq, n_layer, n_kv_embd_k, n_kv_embd_v, chunk;
	uint64_t n_state;	/* floats of a layer's state; 0: a KV cache */
};
/* Fails if the least that is needed is more than the memory there is. */
int pico_plan(const struct pico_model *m, const struct pico_ctx_params *p,
    struct pico_plan *plan, struct pico_err *err);

struct pico_ctx;
/* KV cache, work space and threads for a model, which must outlive it. */
struct pico_ctx *pico_ctx_new(const struct pico_model *m,
    const struct pico_ctx_params *p, struct pico_err *err);
void pico_ctx_free(struct pico_ctx *c);
uint32_t pico_ctx_n_ctx(const struct pico_ctx *c);
uint32_t pico_ctx_n_seq(const struct pico_ctx *c);
uint32_t pico_ctx_n_threads(const struct pico_ctx *c);
uint32_t pico_ctx_chunk(const struct pico_ctx *c);
/* Bytes a second at which weights are read from the file: the median of some
   reads, which take a second at most, or five reads. 0 if all are in memory. */
double pico_ctx_read_speed(struct pico_ctx *c);
/* Name of the instruction set in use. */
const char *pico_ctx_kernels(const struct pico_ctx *c);

/*
 * From now on keeps the squares of all that matrices are multiplied with, for an
 * importance matrix in the file `path`. If that is there already, it is added to.
 */
int pico_ctx_collect(struct pico_ctx *c, const char *path,
    struct pico_err *err);
/* Writes it; `dataset` says what the tokens were, n_chunks how many sequences. */
int pico_ctx_collected(struct pico_ctx *c, const char *dataset,
    uint64_t n_chunks, struct pico_err *err);

/* One column of a pass. */
struct pico_col {
	int32_t token;
	uint32_t seq;		/* < n_seq */
	bool logits;		/* wanted after this token */
};
/*
 * Computes n <= chunk columns; each goes to the next position of its sequence,
 * in the order given. Fails if a token is out of range or a sequence is full,
 * before any work; or if weights cannot be read, or the model's file was
 * changed: then the context is of no more use. The values depend on the tokens
 * before and nothing else.
 */
int pico_ctx_eval(struct pico_ctx *c, const struct pico_col *cols, size_t n,
    struct pico_err *err);
/*
 * Logits of column i of the last pass: n_vocab floats, borrowed until the next
 * call of this function or of pico_ctx_eval(); NULL where they were not asked
 * for, and if weights cannot be read: then pico_ctx_fault() fails, too. Ask in
 * ascending order: they are computed in blocks.
 */
const float *pico_ctx_logits(struct pico_ctx *c, size_t i);
int pico_ctx_fault(const struct pico_ctx *c, struct pico_err *err);
/* Tokens of a sequence that the cache holds; borrowed. */
const int32_t *pico_ctx_tokens(const struct pico_ctx *c, uint32_t seq,
    size_t *n);
/* Whether a sequence is remembered as a state (Mamba, RWKV) and not as a cache:
   then it can be taken over only as a whole. */
bool pico_ctx_recurrent(const struct pico_ctx *c);
/* Forgets all but the first n tokens of a sequence; a state that has seen more
   forgets everything. */
void pico_ctx_cut(struct pico_ctx *c, uint32_t seq, size_t n);
/* Makes the first n positions of `to` those of `from`; nothing, if that is a
   state that has seen more. */
void pico_ctx_copy(struct pico_ctx *c, uint32_t to, uint32_t from, size_t n);

/*
 * Makes room in a sequence: forgets `drop` tokens after the first `keep`, and
 * gives those behind them the places that became free; keys are turned to suit.
 * What follows is not what it would be without the forgotten ones, nor as if
 * they had never been: the cache still knows of them. Fails, even if drop is 0,
 * for a model whose positions are not in the rotation of its keys.
 */
int pico_ctx_shift(struct pico_ctx *c, uint32_t seq, size_t keep, size_t drop,
    struct pico_err *err);
/* Length of the longest beginning that the cache and n given ids share, as far
   as it holds what these ids alone would give; of a state, all of it or 0. */
size_t pico_ctx_match(const struct pico_ctx *c, uint32_t seq,
    const int32_t *ids, size_t n);

/*
 * KV files (pico-kv(5)): the tokens and the cache of one sequence, with a hash
 * of the model and a checksum. Loading a file that is missing leaves the
 * sequence empty and returns 0, else 1. Saving goes to a temporary name first
 * and never leaves half a file. The model is read as a whole once, unless its
 * files are those that a loaded cache was made with.
 */
int pico_kv_load(struct pico_ctx *c, uint32_t seq, const char *path,
    struct pico_err *err);
int pico_kv_save(struct pico_ctx *c, uint32_t seq, const char *path,
    struct pico_err *err);
/* Fails if saving is bound to fail: no such directory, or no right to it. */
int pico_kv_can_save(const char *path, struct pico_err *err);

/* ---- sampling ---------------------------------------------------------- */

/* The samplers, each a step of a chain, in their usual order. Formulas:
   pico-sample(1). */
enum pico_sampler_kind {
	PICO_S_LOGIT_BIAS,	/* bias[] of the chain */
	PICO_S_PENALTIES,	/* n = window (-1: all), a = repeat, b =
				   frequency, c = presence */
	PICO_S_DRY,		/* n = window (-1: all), a = multiplier (0:
				   off), b = base, c = allowed length;
				   breakers of the chain */
	PICO_S_TOP_N_SIGMA,	/* a = n (Tang et al. 2024); below 0: off */
	PICO_S_TOP_K,		/* n = k; 0: all */
	PICO_S_TYPICAL,		/* a = p (Meister et al. 2022) */
	PICO_S_TOP_P,		/* a = p (Holtzman et al. 2019) */
	PICO_S_MIN_P,		/* a = p (Nguyen et al. 2024) */
	PICO_S_XTC,		/* a = probability (0: off), b = threshold */
	PICO_S_TEMP,		/* a = temperature; 0: argmax. b = range (0:
				   fixed), c = exponent: dynamic */
	PICO_S_MIROSTAT		/* n = version, 1 or 2 (0: off), a = tau, b =
				   eta (Basu et al. 2020); one in a chain */
};
#define PICO_S_COUNT 11

struct pico_step {
	enum pico_sampler_kind kind;
	int64_t n;
	double a, b, c;
	uint32_t min_keep;	/* truncating samplers keep at least so many */
};

struct pico_bias {
	int32_t id;
	double bias;	/* -INFINITY bans */
};

struct pico_chain {
	const struct pico_step *steps;
	size_t n_steps;
	const struct pico_bias *bias;
	size_t n_bias;
	const struct pico_breakers *breakers;	/* NULL: none */
};

/*
 * What ends a repetition for DRY: sequences of tokens, of a vocabulary of
 * n_vocab. add: one of n >= 1 ids (PICO_USAGE: one is outside the vocabulary).
 */
struct pico_breakers;
struct pico_breakers *pico_breakers_new(uint32_t n_vocab,
    struct pico_err *err);
void pico_breakers_free(struct pico_breakers *b);
int pico_breakers_add(struct pico_breakers *b, const int32_t *ids, size_t n,
    struct pico_err *err);
/*
 * The same for texts, of which only the first 40 bytes count: every token that
 * has the text in its own, and every one that ends with a beginning of it,
 * followed by the (at most 20) tokens of the rest.
 */
int pico_breakers_texts(struct pico_breakers *b, const struct pico_vocab *v,
    const struct pico_str *texts, size_t n, struct pico_err *err);

struct pico_cand {
	int32_t id;
	double logit;
	double p;	/* probability among the candidates left */
};

/* Work space for a vocabulary; not shared between threads. */
struct pico_sampler;
struct pico_sampler *pico_sampler_new(uint32_t n_vocab, struct pico_err *err);
void pico_sampler_free(struct pico_sampler *s);
/* A sequence, and the token of it that is to be drawn: what the choice depends
   on besides the logits. */
struct pico_seq {
	const int32_t *ids;	/* the n tokens before it, oldest first */
	size_t n;
	uint64_t seed, number;	/* for pico_draw(), with n as position */
	double drift;		/* mirostat: its mu, less 2 tau at the start */
};
/*
 * Runs the chain over n_vocab logits. Returns the number of candidates left,
 * sorted by logit, then id, with their probabilities; *out is borrowed until the
 * next call. Fails on NaN and when no token is possible, naming the id and the
 * position n, and (PICO_USAGE) if a bias is for an id outside the vocabulary. A
 * logit of +infinity gets all the probability; of several, the one with the
 * lowest id.
 */
int64_t pico_sampler_run(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, const struct pico_seq *seq,
    const struct pico_cand **out, struct pico_err *err);
/*
 * The same, and then pico_choose() with the draw for this place: puts the
 * chosen id into *id. Sorts only as far as the choice needs. Of the sequence
 * only its drift changes, so what was drawn for a trial can be undone.
 */
int pico_sampler_draw(struct pico_sampler *s, const struct pico_chain *chain,
    const float *logits, struct pico_seq *seq, int32_t *id,
    struct pico_err *err);
/*
 * A uniform number in [0,1) with 53 bits that depends on these three numbers
 * only: counter-based, so batches and restarts draw alike. seq counts the
 * sequences of the input from 0; pos is the place in its sequence, from 0, of
 * the token to be drawn.
 */
double pico_draw(uint64_t seed, uint64_t seq, uint64_t pos);
/* Another one for the same place, independent of it: XTC's. */
double pico_draw_other(uint64_t seed, uint64_t seq, uint64_t pos);
/*
 * The candidate on which a uniform number falls: the first whose probability,
 * added to those before it, exceeds u, or else the last of all that are
 * possible. Never one of probability 0. n >= 1.
 */
int32_t pico_choose(const struct pico_cand *cand, size_t n, double u);

/*
 * Log-probability of an id (< n) after softmax over the whole row. NaN if a
 * logit is NaN or none is above -infinity. Costs a pass over the row; other ids
 * of the row differ from it as their logits do.
 */
double pico_logprob(const float *logits, uint32_t n, int32_t id);
/*
 * The k best of a row (all, if it has fewer) by logit, then id, with their
 * probabilities after softmax over the whole row. Returns how many; 0 if a
 * logit is NaN or none is above -infinity.
 */
size_t pico_top(const float *logits, uint32_t n, struct pico_cand *out,
    size_t k);

/* ---- grammars ----------------------------------------------------------- */

/* A language in its checked form. */
struct pico_grammar;
/* GBNF text, pico-grammar(5). A fault is told with line and column; so is a rule
   that comes back to itself before it has read anything, and a grammar that no
   finite text fits. */
struct pico_grammar *pico_grammar_parse(const char *text, size_t n,
    struct pico_err *err);
/* Any JSON value (RFC 8259) without blanks; numbers that a double holds. */
struct pico_grammar *pico_grammar_json(struct pico_err *err);
/*
 * GBNF text for what a JSON schema describes, pico-grammar(5): *n bytes that the
 * caller frees. A keyword that is not supported is an error.
 */
char *pico_schema_grammar(const char *text, size_t n, size_t *n_out,
    struct pico_err *err);
void pico_grammar_free(struct pico_grammar *g);

/*
 * A grammar for the output of a vocabulary, and what was worked out about it.
 * Both must outlive it. vocab may be NULL: then matchers take texts only. Not
 * shared between threads.
 */
struct pico_constraint;
struct pico_constraint *pico_constraint_new(const struct pico_grammar *g,
    const struct pico_vocab *vocab, struct pico_err *err);
void pico_constraint_free(struct pico_constraint *c);

/* One output on its way; free all matchers before their constraint. */
struct pico_matcher;
struct pico_matcher *pico_matcher_new(struct pico_constraint *c,
    struct pico_err *err);
void pico_matcher_free(struct pico_matcher *m);
/* Begins another output. */
void pico_matcher_restart(struct pico_matcher *m);
/* Goes on from where another one of the same constraint is. */
void pico_matcher_copy(struct pico_matcher *to, const struct pico_matcher *from);
/*
 * Goes on by n bytes, or by those of a token: 1; or 0 if they do not fit, and
 * then nothing has changed. Tokens that are no text (control tokens, those that
 * end a generation) never fit. -1 without memory, and if there are too many ways
 * to read what there is.
 */
int pico_matcher_text(struct pico_matcher *m, const char *p, size_t n,
    struct pico_err *err);
int pico_matcher_token(struct pico_matcher *m, int32_t id,
    struct pico_err *err);
/* Whether the output may end here, and whether it must. */
bool pico_matcher_can_end(const struct pico_matcher *m);
bool pico_matcher_over(const struct pico_matcher *m);
/*
 * The logits with -infinity for all tokens that do not fit; borrowed until the
 * next call for the same constraint. End-of-generation tokens fit exactly if the
 * output may end. NULL on failure, and if no token fits.
 */
const float *pico_matcher_mask(struct pico_matcher *m, const float *logits,
    struct pico_err *err);
/*
 * Appends the tokens of the bytes that must come next, if there is no choice;
 * without the last one, which may be the beginning of a longer one, unless the
 * output is complete with it. They are still to be told to the matcher.
 */
int pico_matcher_forced(const struct pico_matcher *m, struct pico_ids *out,
    struct pico_err *err);
/* The same for the fewest bytes with which the output can end. */
int pico_matcher_closing(const struct pico_matcher *m, struct pico_ids *out,
    struct pico_err *err);

/* ---- generation -------------------------------------------------------- */

struct pico_gen_params {
	struct pico_chain chain;
	uint64_t seed;
	int64_t n_max;			/* tokens a sequence; < 0: no limit */
	const int32_t *stop_id;		/* these ids end a sequence */
	size_t n_stop_id;
	const struct pico_str *stop;	/* these byte strings in the output do */
	size_t n_stop;
	bool ignore_eog;		/* end-of-generation ids are ordinary */
	bool emit_eog;			/* write the id that ended it */
	bool session;			/* prompts continue one sequence */
	bool shift;			/* a full context does not end a
					   sequence: it keeps the first `keep`
					   tokens and forgets the older half of
					   the others */
	uint32_t keep;			/* at most n_ctx - 2 */
	struct pico_constraint *constraint;	/* of the output, or NULL */
	bool finish;			/* close what a limit cuts off */
	bool no_jump;			/* draw what the grammar forces, too */
};

struct pico_gen_stats {
	uint64_t prompt_tokens;		/* computed */
	uint64_t reused_tokens;		/* found in the cache */
	uint64_t new_tokens;		/* generated; the first of a sequence
					   comes out of its prompt's pass */
	uint64_t decoded_tokens;	/* computed one by one after that */
	uint64_t passes;		/* over the weights */
	uint64_t forced_tokens;		/* of the new ones, by the grammar */
	uint64_t cut;			/* sequences that ended, by a limit or
					   a stop, where their grammar has no
					   end */
	double prompt_seconds, decode_seconds;
	enum pico_reason reason;	/* of the sequence that ended last */
};

/*
 * Where the output goes: the tokens of one sequence after the other, in the
 * order of their prompts, each as early as that order allows. A negative return
 * stops the generation; *err says why.
 */
struct pico_gen_sink {
	int (*token)(void *data, int32_t id, struct pico_err *err);
	int (*end)(void *data, enum pico_reason reason, struct pico_err *err);
	void *data;
};

struct pico_gen;
/*
 * Generates on all sequences of a context, which may hold a cache already:
 * shared beginnings are never computed twice. params, and what it points to,
 * ctx and vocab stay the caller's and must outlive it.
 */
struct pico_gen *pico_gen_new(struct pico_ctx *ctx,
    const struct pico_vocab *vocab, const struct pico_gen_params *params,
    const struct pico_gen_sink *sink, struct pico_err *err);
void pico_gen_free(struct pico_gen *g);
/* Sequences that are being computed, and whether one more can be added. */
size_t pico_gen_busy(const struct pico_gen *g);
bool pico_gen_has_room(const struct pico_gen *g);
/*
 * Adds a prompt; there must be room. echo: its tokens are output, too. Fails,
 * and adds nothing, if it does not fit into the context or holds an id that is
 * not in the vocabulary. An empty prompt gives an empty sequence.
 */
int pico_gen_add(struct pico_gen *g, const int32_t *ids, size_t n, bool echo,
    struct pico_err *err);
/* Adds an empty sequence in place of a prompt that was no good. */
int pico_gen_skip(struct pico_gen *g, struct pico_err *err);
/* Ends the sequences that are being computed, as if each had reached its limit
   of tokens; what they have is output, and a session goes on from there. */
int pico_gen_stop(struct pico_gen *g, struct pico_err *err);
/* One pass over what there is to compute, and its output. */
int pico_gen_step(struct pico_gen *g, struct pico_err *err);
const struct pico_gen_stats *pico_gen_stats(const struct pico_gen *g);

/* ---- scores ------------------------------------------------------------ */

/* Numbers in the order in which they came; zeroed: none. */
struct pico_tally {
	uint64_t n;
	double sum;
	double mean, square;	/* and the sum of squares of what differs */
};
void pico_tally_add(struct pico_tally *t, double x);
/* Standard error of the mean; NaN of fewer than two. */
double pico_tally_error(const struct pico_tally *t);
/* exp(-mean) of log-probabilities; NaN of none. *error, if not NULL: its
   standard error, propagated from that of the mean. */
double pico_perplexity(const struct pico_tally *t, double *error);

struct pico_scored {
	uint64_t sequence;	/* in the order added, from 1 */
	uint64_t pos;		/* place in its sequence, from 0 */
	int32_t id, before;	/* the token, and the one before it there */
	double logprob;		/* pico_logprob() of it */
	const float *logits;	/* of all tokens at this place; borrowed */
};

/* Where scores go: the scored tokens of one sequence after the other, then its
   end. A negative return stops it all; *err says why. */
struct pico_score_sink {
	int (*token)(void *data, const struct pico_scored *t,
	    struct pico_err *err);
	int (*end)(void *data, uint64_t sequence, uint64_t tag,
	    struct pico_err *err);
	void *data;
};

struct pico_score_stats {
	uint64_t scored, computed, passes;	/* tokens, columns */
	double seconds;
};

struct pico_score;
/*
 * Scores on all sequences of a context. stride: 0, or how far windows of a text
 * that is longer than the context lie apart, less than the context. share: one
 * sequence is kept for pico_score_share(); there must be two. ctx stays the
 * caller's and must outlive it.
 */
struct pico_score *pico_score_new(struct pico_ctx *ctx,
    const struct pico_vocab *vocab, uint32_t stride, bool share,
    const struct pico_score_sink *sink, struct pico_err *err);
void pico_score_free(struct pico_score *s);
/*
 * Adds a sequence, whose tokens from position `from` (at least 1) on are scored:
 * each once, and in a later window after at least (context - stride) others. If
 * it begins with BOS, all windows do. Computes what fills whole passes; scores
 * come then or later. `tag` is for the end. Fails, and adds nothing, if there
 * is no stride and it does not fit into the context, or if an id is not in the
 * vocabulary.
 */
int pico_score_add(struct pico_score *s, const int32_t *ids, size_t n,
    size_t from, uint64_t tag, struct pico_err *err);
/* Fails if that would. */
int pico_score_check(const struct pico_score *s, const int32_t *ids, size_t n,
    struct pico_err *err);
/* Computes the common beginning of the sequences that are added next, once. */
int pico_score_share(struct pico_score *s, const int32_t *ids, size_t n,
    struct pico_err *err);
/* Computes what waits. */
int pico_score_flush(struct pico_score *s, struct pico_err *err);
const struct pico_score_stats *pico_score_stats(const struct pico_score *s);

/*
 * Saved scores (pico-score(1)): the distributions of a run, to compare those of
 * another model with. Writing goes to a new file, to one of its kind, or to a
 * pipe; what was not ended is no use.
 */
struct pico_saved_out;
struct pico_saved_out *pico_saved_create(const char *path,
    const struct pico_vocab *vocab, struct pico_err *err);
int pico_saved_put(struct pico_saved_out *out, const struct pico_scored *t,
    struct pico_err *err);
int pico_saved_end(struct pico_saved_out *out, struct pico_err *err);
void pico_saved_close(struct pico_saved_out *out);

struct pico_saved_in;
/* Fails if the file was made with another vocabulary. */
struct pico_saved_in *pico_saved_open(const char *path,
    const struct pico_vocab *vocab, struct pico_err *err);
/* Compares with the next saved one; fails if that is of another token. *kl: the
   divergence of this distribution from the saved one. */
int pico_saved_compare(struct pico_saved_in *in, const struct pico_scored *t,
    double *kl, struct pico_err *err);

struct pico_estimate {
	double value, error;	/* and its standard error */
};
struct pico_comparison {
	uint64_t n;		/* tokens */
	struct pico_estimate perplexity, saved, difference;
	struct pico_estimate kl;	/* its mean */
	double kl_99, kl_max;	/* 99 % are at most this, less a thousandth */
	struct pico_estimate same;	/* share of places where both find the
					   same token the most probable */
};
/* What all comparisons come to; fails unless the whole file was compared, and
   is sound. */
int pico_saved_finish(struct pico_saved_in *in, struct pico_comparison *out,
    struct pico_err *err);
void pico_saved_free(struct pico_saved_in *in);

/* ---- machine ----------------------------------------------------------- */

/* Threads that make sense here: affinity, CPU quota, physical cores. */
uint32_t pico_default_threads(void);
/*
 * Memory that this process can use: the least of what the limits of its cgroups
 * leave and of what the machine has available, less 1/32, since at a limit the
 * kernel begins to drop pages that are wanted. UINT64_MAX if not known.
 */
uint64_t pico_memory(void);
/* Peak resident bytes of this process; 0 if not known. */
uint64_t pico_peak_memory(void);
/* Bytes this process had read from the disk; 0 if not known. */
uint64_t pico_disk_read(void);
/* Seconds since some moment, monotonic. */
double pico_seconds(void);
/*
 * From now on, and for ever, this process can start no other program or process,
 * use no network, trace nobody, make no memory executable, and, unless `writes`,
 * open no file for writing, nor make, rename or remove one: refused with EPERM.
 * Files that are open, reading and new threads are not touched; threads that run
 * already are not bound. True if so; false, and little changed, where the system
 * has no such means (elsewhere than on Linux on x86-64 and 64-bit Arm; in some
 * emulators), which is no fault.
 */
bool pico_confine(bool writes);

#ifdef __cplusplus
}
#endif

#endif
