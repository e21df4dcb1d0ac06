/* data: *what are the samples?* Data sets in files, the order of their samples, what a batch is made of.
 *
 * A data set is a table. Its rows are samples; a column holds a tensor for each sample, all of one shape and element
 * type. Columns come from .npy and .npz arrays, CSV and IDX files (docs/data.md). What is read where it lies stays in
 * the mapped file.
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
/* How a data set is read; all zeros are the defaults. */
typedef struct dataset_options {
  const char *target; /* name of the target column; NULL: the last column */
  double split;       /* fraction of the samples that is held out, less than 1; 0: none */
  bool standardize;   /* whoever reads inputs of floats asks for mean 0 and standard deviation 1 */
} dataset_options;
/* Sets the option NAME (of the program's --NAME: target, split, standardize) from its text; value NULL: there is none.
 * The text is borrowed. False: no option of data sets has this name. E_USAGE: the text is not one of its values. */
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
  uint32_t classes;              /* number of labels; 0: none */
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

/* ---- samples --------------------------------------------------------------------------------- */
/* What becomes of stored elements: x is (x - mean[g]) * factor[g], rounded to `type` once. The elements of a sample are
 * `groups` groups of equal size, one after the other (channels, elements, or one for all). */
typedef struct dataset_transform {
  etype type;           /* element type that is wanted, not ET_STR; ET_NONE: the stored one */
  uint32_t groups;      /* number of groups, which divides that of elements; 0: values stay as they are */
  const double *mean;   /* of each group */
  const double *factor; /* of each group */
} dataset_transform;
/* Only the element type changes, but for images (u8 in two axes or more) that become floats: 0 to 255 is 0 to 1. */
dataset_transform dataset_converted(const dataset *d, uint32_t column, etype type);
/* Copies sample i of a column to `out`, row-major: elements of the wanted type. Integers stay what they are, and floats
 * that become integers must be whole numbers. c: for errors and memory during the call; may be another context than the
 * data set's. E_SHAPE: a value is none of the wanted type. */
void dataset_read(ctx *c, const dataset *d, uint32_t column, int64_t i, const dataset_transform *t, void *out);

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
/* Mean 0 and standard deviation 1 over a part (the training set; the result then serves other sets): for each element
 * of samples with at most one axis, for each index of the first axis where there are three or more (channels), and over
 * all elements where there are two. Deviations are those of the population; what is constant becomes 0. Means and
 * factors lie in the arena. */
dataset_transform dataset_standardized(arena *a, const dataset *d, uint32_t column, dataset_part part, etype type);

/* ---- order ----------------------------------------------------------------------------------- */
/* The number in 0 to n - 1 at a position of an epoch: for each seed and epoch a permutation. */
int64_t dataset_shuffled(uint64_t seed, uint64_t epoch, int64_t n, int64_t position);
#endif
