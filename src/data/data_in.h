/* Private to data: what a data set holds, and how formats give it. */
#ifndef EK_DATA_IN_H
#define EK_DATA_IN_H
#include "data/data.h"

typedef struct column {
  dataset_column shown; /* what others see */
  int64_t n;            /* number of samples */
  size_t bytes;         /* bytes of one sample as stored */
  const char *file;     /* where it comes from, for messages */
  const uint8_t *data;  /* the samples, one after the other, aligned for their type; NULL: fill makes each */
  /* makes sample i, for the time of the arena; from any thread */
  void (*fill)(arena *a, const void *env, int64_t i, uint8_t *out);
  const void *env; /* handed to fill */
} column;
struct dataset {
  const char *path;    /* as it was given */
  VEC(column) columns; /* all of one number of samples */
  int32_t target;      /* column of the target; -1: none */
  const dataset *like; /* see dataset_open; NULL: none */
  dataset_options o;   /* as it was given */
};

/* One of the parts of a path. */
typedef struct data_source {
  const char *name;   /* name for its column; NULL: none was given */
  const char *path;   /* the file or folder */
  const char *member; /* array of it, or beginning of its files' names; NULL: none was given */
  bytes content;      /* the file's bytes, unpacked; not of a folder */
} data_source;

/* ---- open.c ---------------------------------------------------------------------------------- */
/* Appends a column: the first axis of x is that of the samples. file: where it comes from, for messages. */
void dataset_add(ctx *c, dataset *d, const char *file, const char *name, const ndarray *x);
/* An error at a line and column of a text, both from 1; unwinds. */
_Noreturn void fail_at(ctx *c, const char *file, uint64_t line, uint64_t col, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- classes.c ------------------------------------------------------------------------------- */
/* Texts become classes: i64 in the order of the texts, or those of `like`'s column of this name. */
void dataset_add_texts(ctx *c, dataset *d, const char *file, const char *name, const bytes *texts, int64_t n);

/* ---- formats: each appends the columns of a source, or unwinds ------------------------------- */
/* A folder of folders, which are the classes; false: there is no image in them. */
bool read_image_folder(ctx *c, dataset *d, const data_source *s, const strvec *classes);
void read_text(ctx *c, dataset *d, const data_source *s);
bool is_csv(const data_source *s);
void read_csv(ctx *c, dataset *d, const data_source *s);
void read_idx(ctx *c, dataset *d, const data_source *s);

/* ---- random.c -------------------------------------------------------------------------------- */
/* What random numbers are for: each use has numbers of its own. */
typedef enum { RANDOM_ORDER, RANDOM_SPLIT, RANDOM_PLACE, RANDOM_NOISE } random_use;
/* Philox 4x32 of 10 rounds (Salmon et al. 2011): four words that are a function of the key and the counter. */
void philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]);
/* The number at a position of the permutation of 0 to n - 1 that seed, use and number select. */
int64_t permuted(uint64_t seed, random_use use, uint64_t number, int64_t n, int64_t position);

/* ---- read.c ---------------------------------------------------------------------------------- */
/* Elements of a float type, or any for loading, to and from doubles. */
void elements_load(etype t, const uint8_t *p, size_t n, double *out);
void elements_store(etype t, const double *x, size_t n, uint8_t *p);

/* ---- augment.c ------------------------------------------------------------------------------- */
bool augments_place(const dataset_augment *g); /* augment_place has something to do */
void augment_place(ctx *c, const column *k, const dataset_augment *g, const dataset_draw *r, const uint8_t *from,
                   uint8_t *out);
/* t: its groups, type and units of noise */
void augment_noise(double deviation, const dataset_draw *r, const dataset_transform *t, size_t n, uint8_t *p);
#endif
