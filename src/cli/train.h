/* train: what the commands `train` and `evaluate` are made of: options, columns of data sets as arrays of a batch
 * (train_data.c), classes and their texts (classes.c), the loop over epochs (train_loop.c), checkpoints
 * (checkpoint.c). */
#ifndef EK_CLI_TRAIN_H
#define EK_CLI_TRAIN_H
#include "cli/cli.h"
#include "data/data.h"

/* ---- train_data.c: which column is which, and batches ----------------------------------------- */
typedef struct feed {
  dataset_batches source;        /* the samples, and what is read of them; fields: one for each array */
  int64_t rows;                  /* samples of a whole batch */
  size_t n;                      /* arrays of a batch */
  ek_array *batch;               /* names, types and sizes; data: the last batch that was read */
  dataset_field *fields;         /* where each comes from */
  void **room;                   /* of each, memory for a batch that is read without a thread */
  dataset *set;                  /* the same as source.set */
  ek_standardization *standards; /* inputs that are standardized */
  size_t nstandards;             /* how many */
} feed;
/* The model's inputs, and what the loss and the metrics are computed from. k->train says which. Tells what was taken;
 * unwinds where something is missing or does not fit. */
feed feed_open(cli *k, ek_model *model, dataset *d, dataset_part part);
/* The same arrays of another data set. */
feed feed_like(cli *k, const feed *train, const dataset *d, dataset_part part);
/* Reads batch `index` in the order of the file; its samples. The last batch may have fewer. */
int64_t feed_read(cli *k, feed *f, int64_t index);
/* The arrays of a batch of so many samples that lies in memory. */
void feed_use(feed *f, void *const *data, int64_t rows);

/* ---- classes.c ---------------------------------------------------------------------------------- */
/* Texts of the column, which is this array of a batch, get the numbers that they had when the model was trained. One
 * that it does not know is an error for evaluate; a training numbers them anew. */
void match_classes(cli *k, ek_model *model, dataset *d, uint32_t column, const char *array);
/* Metadata that say which number each text has, "KEY=TEXT", and NULL. */
strvec class_metadata(cli *k, const feed *f);

/* ---- train_loop.c ----------------------------------------------------------------------------- */
typedef VEC(double) doubles;
typedef struct tally { /* loss and metrics of several batches */
  double loss;         /* sum of loss times samples */
  double samples;      /* number of samples */
  doubles *metrics;    /* of each metric: sums */
} tally;
typedef struct training {
  cli *k;                 /* the program */
  ek_trainer *t;          /* the trainer */
  dataset_loader *loader; /* reads the batches of `train` */
  feed train;             /* what is trained on */
  feed check;             /* what is validated on; n 0: nothing */
  uint32_t nmetrics;      /* number of metrics */
  int64_t epoch;          /* epochs that are done */
  int64_t done;           /* batches of the epoch that are done */
  tally sum;              /* of these batches */
  double best;            /* least loss of an epoch; infinite: none yet */
  int64_t best_epoch;     /* its number, from 1; 0: none yet */
  double rate;            /* learning rate of the last step */
  doubles losses;         /* of validation (without it: of the steps) in each epoch that is done */
  sbuf log;               /* lines of --log */
  const char *events;     /* file of events; NULL: none */
  bool stopped;           /* Ctrl-C or SIGTERM: a checkpoint was written, and training ends */
} training;
tally tally_new(cli *k, uint32_t nmetrics);
/* adds what the last step or evaluation gave, for so many samples */
ek_code tally_add(training *r, tally *s, double loss, int64_t samples);
double tally_loss(const tally *s);                                  /* mean of the losses */
double tally_metric(const training *r, const tally *s, uint32_t i); /* the metric's value */
ek_code evaluate_all(training *r, feed *f, tally *out);
ek_code train_epochs(training *r);

/* ---- events.c: scalars for TensorBoard --------------------------------------------------------- */
/* A new event file in a folder, for a training that goes on behind this step; its path. Unwinds where that fails. */
const char *events_open(cli *k, const char *folder, int64_t step);
void events_add(cli *k, sbuf *summary, const char *tag, double x); /* a named number becomes part of a summary */
void events_write(cli *k, const char *path, int64_t step, const sbuf *summary);

/* ---- checkpoint.c ------------------------------------------------------------------------------ */
/* Writes where training stands, as `name` in k->train.checkpoints; unwinds where that fails. */
void checkpoint_write(training *r, const char *name);
void checkpoint_read(training *r, const char *path); /* unwinds: damaged, or of another training */
/* Writes a numbered checkpoint, and removes the oldest beyond --keep. */
void checkpoint_step(training *r);
/* The newest numbered checkpoint of a folder; NULL: there is none. */
const char *checkpoint_newest(cli *k, const char *folder);
void checkpoint_folder(cli *k); /* makes the folder, and removes what an end of the power left unfinished */
#define CHECKPOINT_BEST "best.safetensors"
#endif
