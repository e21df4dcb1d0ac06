/* data: *what are the samples?* Data sets in files, the order of their samples, what a batch is made of.
 *
 * A data set is a table. Its rows are samples; a column holds a tensor for each sample, all of one shape and element
 * type. Columns come from .npy and .npz arrays, CSV and IDX files, folders of images and texts (docs/data.md). What is
 * read where it lies stays in the mapped file; images are decoded when they are read.
 * After dataset_open a data set does not change, and any number of threads may read it. It lives as long as the
 * context that opened it.
 * Everything random is a function of a seed and of the place where it is used, with no state: reading may begin at any
 * place of any epoch.
 * Errors are diagnostics that name the file and the place (line and column of a text, or the sample, from 0); then the
 * functions unwind to the frame of the context in question (base.h). */
#ifndef EK_DATA_H
#define EK_DATA_H
#include "base/base.h"

/* ---- options --------------------------------------------------------------------------------- */
/* Changes of samples by chance; all zeros: none. */
typedef struct dataset_augment {
  bool flip;     /* the mirror image, left to right, of every other sample */
  uint32_t crop; /* moves by up to so many rows and columns; what comes in is 0. 0: none */
  double noise;  /* standard deviation of normal noise, in the units of dataset_transform; 0: none */
} dataset_augment;
/* How a data set is read; all zeros are the defaults. */
typedef struct dataset_options {
  const char *target;      /* name of the target column; NULL: the last column */
  double split;            /* fraction of the samples that is held out, less than 1; 0: none */
  bool standardize;        /* whoever reads inputs of floats asks for mean 0 and standard deviation 1 */
  uint32_t image_height;   /* rows that images are resized to; 0: those of the first image, which all must have */
  uint32_t image_width;    /* columns, with image_height */
  uint32_t image_channels; /* 1: gray, 3: RGB; 0: those of the first image */
  dataset_augment augment; /* of the inputs in training */
  int64_t sequence;        /* tokens of a sample of text; 0: it is no text */
  const char *vocabulary;  /* file with a token in each line; NULL: tokens are bytes */
} dataset_options;
/* Sets the option NAME (of the program's --NAME: target, split, standardize, image-size, augment, sequence, vocabulary)
 * from its text; value NULL: there is none. The text is borrowed. False: no option of data sets has this name. E_USAGE:
 * the text is not one of its values. */
bool dataset_option(ctx *c, dataset_options *o, const char *name, const char *value);

/* ---- data sets ------------------------------------------------------------------------------- */
typedef struct dataset dataset;
typedef struct dataset_column {
  const char *name;              /* of the array, or the target's of a CSV file; "x": its other columns */
  etype type;                    /* type of the stored elements; never ET_STR */
  uint32_t rank;                 /* number of axes of one sample; 0: a scalar */
  int64_t dims[MAX_RANK];        /* size of each axis, outer to inner */
  int64_t elements;              /* elements of one sample: the product of the sizes */
  const char *const *components; /* name of each element: the header of a CSV file; NULL: they have none */
  const char *const *labels;     /* text of each class, in sorted order; NULL: values are no classes with a text */
  bool resizable;                /* images of a folder, which the option image-size resizes */
  uint32_t classes;              /* values are 0 to classes - 1: labels, or tokens of a text; 0: not known */
} dataset_column;

/* Opens PATH: a file or folder; or several with a comma between them, each [NAME=]FILE[:MEMBER], whose columns stand
 * side by side. MEMBER is an array of a .npz, or what the names of a folder's files begin with. Files are recognised
 * by their content. o is not kept. like: the data set that this one goes with (the training set of a validation set),
 * NULL: none. Texts then are its classes, and columns of CSV files must have its names.
 * E_IO: a file cannot be read or is damaged; E_SHAPE: columns differ in the number of samples; E_USAGE: there is no
 * such member or target; E_UNSUPPORTED: the format is not known. */
dataset *dataset_open(ctx *c, const char *path, const dataset_options *o, const dataset *like);
int64_t dataset_count(const dataset *d); /* number of samples, at least 1 */
uint32_t dataset_columns(const dataset *d);
const dataset_column *dataset_column_at(const dataset *d, uint32_t column);
int32_t dataset_find(const dataset *d, const char *name); /* a column by its name; -1: there is none */
int32_t dataset_target(const dataset *d);                 /* the target column; -1: there is one column only */

/* The column, whose values are classes with texts, gets the numbers that these texts have in this list, which is kept.
 * To be called before samples are read. Otherwise than with NULL nothing changes: the text of a class that the list
 * does not have. */
const char *dataset_renumber(ctx *c, dataset *d, uint32_t column, const char *const *labels, uint32_t n);

/* ---- samples --------------------------------------------------------------------------------- */
/* What becomes of stored elements: x is (x - mean[g]) * factor[g], rounded to `type` once. The elements of a sample are
 * `groups` groups of equal size, one after the other (channels, elements, or one for all). */
typedef struct dataset_transform {
  etype type;           /* element type that is wanted, not ET_STR; ET_NONE: the stored one */
  uint32_t groups;      /* number of groups, which divides that of elements; 0: values stay as they are */
  const double *mean;   /* of each group */
  const double *factor; /* of each group */
  const double *noise;  /* of each group: the deviation of noise of 1; NULL: 1 */
} dataset_transform;
/* Only the element type changes, but for images (u8 in two axes or more) that become floats: 0 to 255 is 0 to 1. */
dataset_transform dataset_converted(const dataset *d, uint32_t column, etype type);
/* Copies sample i of a column to `out`, row-major: elements of the wanted type. Integers stay what they are, and floats
 * that become integers must be whole numbers. c: for errors and memory during the call; may be another context than the
 * data set's. E_SHAPE: a value is none of the wanted type. */
void dataset_read(ctx *c, const dataset *d, uint32_t column, int64_t i, const dataset_transform *t, void *out);

/* Which sample, and what its random numbers are a function of. */
typedef struct dataset_draw {
  uint64_t seed, epoch;
  int64_t sample;
} dataset_draw;
/* The same with augmentation, g NULL: none. E_USAGE: the column's samples have less than two axes to flip or crop, or
 * noise is asked for in integers. */
void dataset_read_augmented(ctx *c, const dataset *d, uint32_t column, const dataset_draw *r,
                            const dataset_transform *t, const dataset_augment *g, void *out);

/* Which samples: a part of a data set. */
typedef struct dataset_part {
  const int64_t *samples; /* their numbers, ascending; NULL: 0 to n - 1 */
  int64_t n;              /* how many */
} dataset_part;
dataset_part dataset_all(const dataset *d);
/* Divides the samples: `fraction` of them, rounded, are held out. Where targets are integers, the part of each value
 * that is held out is `fraction` of its samples, to one sample; which ones depends on the seed. The numbers lie in the
 * arena. E_USAGE: one side would be empty. */
void dataset_split(arena *a, const dataset *d, double fraction, uint64_t seed, dataset_part *rest,
                   dataset_part *held_out);
/* Mean and standard deviation of what is read of a column. */
typedef struct dataset_statistics {
  uint32_t groups;         /* groups of a sample's elements, as in dataset_transform */
  const double *mean;      /* of each group */
  const double *deviation; /* of each group, of the population; of what is constant 1 */
} dataset_statistics;
/* Over a part, of what dataset_converted reads: for each element of samples with at most one axis, for each index of
 * the first axis where there are three or more (channels), and over all elements where there are two. In the arena. */
dataset_statistics dataset_measure(arena *a, const dataset *d, uint32_t column, dataset_part part);
/* As dataset_converted, with noise in units of the deviations. In the arena. */
dataset_transform dataset_scaled_noise(arena *a, const dataset *d, uint32_t column, etype type,
                                       const dataset_statistics *s);

/* ---- order ----------------------------------------------------------------------------------- */
/* The number in 0 to n - 1 at a position of an epoch: for each seed and epoch a permutation. */
int64_t dataset_shuffled(uint64_t seed, uint64_t epoch, int64_t n, int64_t position);

/* ---- batches --------------------------------------------------------------------------------- */
/* One tensor of a batch: samples of a column, one after the other. */
typedef struct dataset_field {
  uint32_t column;       /* of the data set */
  dataset_transform how; /* what is read; its arrays are borrowed */
  bool augmented;        /* the batches' augmentation is for it */
} dataset_field;
typedef struct dataset_batches {
  const dataset *set;
  dataset_part part;           /* which samples */
  int64_t batch;               /* samples of a batch, at least 1 */
  bool keep_last;              /* an epoch's last batch may have fewer samples; else these are left out */
  bool shuffle;                /* each epoch has an order of its own; else that of the part */
  uint64_t seed;               /* of order and augmentation */
  dataset_augment augment;     /* of the fields that say so */
  uint32_t nfields;            /* number of fields */
  const dataset_field *fields; /* what a batch holds */
} dataset_batches;
int64_t dataset_batch_count(const dataset_batches *b); /* batches of an epoch; may be 0 */
/* Reads batch `index` of an epoch; out: of each field, memory for a whole batch. Gives the number of its samples. */
int64_t dataset_batch_read(ctx *c, const dataset_batches *b, uint64_t epoch, int64_t index, void *const *out);

/* A thread that reads the next batches while the caller computes. */
typedef struct dataset_loader dataset_loader;
typedef struct dataset_batch {
  uint64_t epoch;    /* of the batch */
  int64_t index;     /* of the batch in its epoch, from 0 */
  int64_t n;         /* number of samples */
  int64_t *samples;  /* their numbers in the data set */
  void *const *data; /* of each field; begins at a multiple of 64 bytes */
} dataset_batch;
/* Batches from `index` of `epoch` on, without end: after the last of an epoch the first of the next. buffers: batches
 * in memory, at least 2, one of which the caller has. b is copied, but for the data set, the part's numbers and what
 * transformations point to, which must stay. E_USAGE: an epoch has no batch. To be closed, also after an error. */
dataset_loader *dataset_loader_open(ctx *c, const dataset_batches *b, uint32_t buffers, uint64_t epoch, int64_t index);
/* Waits for the next batch, which is the caller's until the next call. An error in reading it unwinds here, in the
 * context of the opening. */
const dataset_batch *dataset_loader_next(dataset_loader *l);
void dataset_loader_close(dataset_loader *l); /* at any time, waits for one sample at most; NULL: nothing */
#endif
