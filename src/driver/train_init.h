/* train_init: what values does a training begin with? */
#ifndef EK_DRIVER_TRAIN_INIT_H
#define EK_DRIVER_TRAIN_INIT_H
#include "driver/driver.h"

typedef struct initial_values {
  const inner_options *model; /* makes the graph of the model, in which parameters are inputs */
  const strvec *names;        /* parameters: states of the run */
  ek_run *run;                /* a run of the step */
  const char *how;            /* as ek_train_options.init */
  uint64_t seed;              /* of random values */
} initial_values;
/* Sets the states. EK_USAGE: there is no such way; or as ek_compile */
ek_code train_initialise(ek_model *m, const ek_options *o, const initial_values *v);
#endif
