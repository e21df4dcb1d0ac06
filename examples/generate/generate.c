/* Text generation in C: a decoder whose caches of keys and values stay inside, token after token.
 *
 *   generate MODEL.onnx [--prompt TEXT | --random N] [--tokens N] [--temperature T] [--top-k K] [--top-p P] [--seed N]
 *            [--room N] [--precision bf16] [--threads N]
 *
 * What is present in one run is the past of the next one. Tied together they are states: nobody hands them over, and a
 * step writes its own rows of them and copies nothing. One compiled model reads the prompt, many tokens at once, and
 * then makes one token at a time. Tokens are bytes where there are no more of them than of these; else numbers are
 * printed. generate.py tells more; it gives the same tokens.
 *
 * Build against an installed Einkorn:  cc generate.c -leinkorn -lm -o generate
 */
#define _POSIX_C_SOURCE 199309L
#include <einkorn/einkorn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  ek_run *run;
  int64_t room, length; /* tokens that a text may have; that it has */
  int64_t vocabulary;
  int64_t *tokens, *ones, *places; /* arrays of `room` numbers: the inputs */
  int takes_places;                /* the model has an input for positions */
} decoder;
typedef struct {
  float score;
  int64_t token;
} choice;
typedef struct {
  double temperature, top_p;
  int64_t top_k;
  uint64_t random; /* state of the random numbers */
  choice *choices; /* room for all tokens */
  double *sums;    /* and their weights, summed up */
} sampler;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static uint64_t next_random(uint64_t *state) { /* SplitMix64 */
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

/* The scores of what comes behind these n tokens, which go on where the last ones ended; NULL on failure. */
static const float *decoder_step(decoder *d, const int64_t *tokens, int64_t n) {
  const int64_t dims[] = {1, n}, mask[] = {1, d->length + n};
  const size_t bytes = (size_t)n * sizeof *tokens;
  ek_array logits;
  if (d->length + n > d->room) {
    fprintf(stderr, "the text has %lld tokens, there is room for %lld\n", (long long)(d->length + n),
            (long long)d->room);
    return NULL;
  }
  if (ek_run_set_input(d->run, "input_ids", tokens, bytes, dims, 2) ||
      ek_run_set_input(d->run, "attention_mask", d->ones, (size_t)mask[1] * sizeof *d->ones, mask, 2) ||
      (d->takes_places && ek_run_set_input(d->run, "position_ids", d->places + d->length, bytes, dims, 2)) ||
      ek_run_execute(d->run) || ek_run_get_output(d->run, "logits", &logits)) {
    fprintf(stderr, "%s\n", ek_run_message(d->run));
    return NULL;
  }
  d->length += n;
  return (const float *)logits.data + (n - 1) * d->vocabulary;
}

static int by_score(const void *a, const void *b) {
  const choice *x = a, *y = b;
  return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                              : (x->token > y->token) - (x->token < y->token);
}
/* One token: the likeliest (temperature 0), or one of the likeliest by chance. */
static int64_t sample(sampler *s, const float *scores, int64_t vocabulary) {
  int64_t count = s->top_k > 0 && s->top_k < vocabulary ? s->top_k : vocabulary, best = 0;
  double sum = 0;
  for (int64_t i = 1; i < vocabulary; i++)
    if (scores[i] > scores[best]) best = i;
  if (s->temperature <= 0) return best;
  for (int64_t i = 0; i < vocabulary; i++) s->choices[i].score = scores[i], s->choices[i].token = i;
  qsort(s->choices, (size_t)vocabulary, sizeof *s->choices, by_score);
  for (int64_t i = 0; i < count; i++)
    s->sums[i] = sum += exp(((double)s->choices[i].score - (double)scores[best]) / s->temperature);
  int64_t last = 0; /* the likeliest with the probability top_p together end here */
  while (last < count - 1 && (s->top_p >= 1 || s->sums[last] < s->top_p * sum)) last++;
  const double at = (double)(next_random(&s->random) >> 11) / 9007199254740992.0 * s->sums[last];
  int64_t i = 0;
  while (i < last && s->sums[i] <= at) i++;
  return s->choices[i].token;
}

/* What the model says of its inputs and outputs, and memory for the inputs; 0 on failure. */
static int prepare(decoder *d, ek_module *code) {
  ek_tensor_info logits;
  if (ek_run_create(code, 0, &d->run) || ek_module_output(code, ek_module_find_output(code, "logits"), &logits))
    return 0;
  d->vocabulary = logits.dims[2];
  d->takes_places = ek_module_find_input(code, "position_ids") >= 0;
  d->tokens = malloc(3 * (size_t)d->room * sizeof *d->tokens);
  if (!d->tokens) return 0;
  d->ones = d->tokens + d->room, d->places = d->ones + d->room;
  for (int64_t i = 0; i < d->room; i++) d->ones[i] = 1, d->places[i] = i;
  return 1;
}
/* The text's bytes, or so many random tokens; how many, or 0. */
static int64_t make_prompt(const decoder *d, const char *text, int64_t random, uint64_t *state) {
  const int64_t n = random ? random : (int64_t)strlen(text);
  if (n > d->room) return 0;
  for (int64_t i = 0; i < n; i++) {
    d->tokens[i] = random ? (int64_t)(next_random(state) % (uint64_t)d->vocabulary) : (unsigned char)text[i];
    if (d->tokens[i] >= d->vocabulary) return 0;
  }
  return n;
}
static void print_token(int64_t token, int64_t vocabulary) {
  if (vocabulary > 256)
    printf("%lld ", (long long)token);
  else if (token < 32 || token > 126)
    printf("\\x%02x", (unsigned)token);
  else
    putchar((int)token);
}
static int generate(decoder *d, sampler *s, int64_t prompt, int64_t tokens) {
  const double start = now();
  double begun = start;
  for (int64_t i = 0; i < tokens; i++) {
    const float *scores = decoder_step(d, d->tokens, i ? 1 : prompt);
    if (!scores) return 0;
    d->tokens[0] = sample(s, scores, d->vocabulary);
    print_token(d->tokens[0], d->vocabulary);
    if (!i) begun = now();
  }
  printf("\nprompt: %lld tokens, %.0f a second\n", (long long)prompt, (double)prompt / (begun - start));
  if (tokens > 1)
    printf("then: %lld tokens, %.1f a second\n", (long long)tokens - 1, (double)(tokens - 1) / (now() - begun));
  return 1;
}

int main(int argc, char **argv) {
  const char *text = "Einkorn", *const states[] = {"present.*=past_key_values.*", NULL};
  char room[64];
  const char *const dims[] = {"batch_size=1", room, NULL};
  int64_t random = 0, tokens = 32;
  decoder d = {.room = 1024};
  sampler s = {.top_p = 1, .random = 1};
  ek_options o;
  ek_options_init(&o);
  for (int i = 2; i + 1 < argc; i += 2) {
    const char *name = argv[i], *value = argv[i + 1];
    if (!strcmp(name, "--prompt"))
      text = value;
    else if (!strcmp(name, "--random"))
      random = atoll(value);
    else if (!strcmp(name, "--tokens"))
      tokens = atoll(value);
    else if (!strcmp(name, "--temperature"))
      s.temperature = atof(value);
    else if (!strcmp(name, "--top-k"))
      s.top_k = atoll(value);
    else if (!strcmp(name, "--top-p"))
      s.top_p = atof(value);
    else if (!strcmp(name, "--seed"))
      s.random = strtoull(value, NULL, 10);
    else if (!strcmp(name, "--room"))
      d.room = atoll(value);
    else if (!strcmp(name, "--precision") && !strcmp(value, "bf16"))
      o.precision = EK_PRECISION_BF16;
    else if (!strcmp(name, "--threads"))
      o.threads = atoi(value);
    else
      argc = 0;
  }
  if (argc < 2 || argc % 2 || d.room < 1) {
    fprintf(stderr,
            "usage: generate MODEL.onnx [--prompt TEXT | --random N] [--tokens N] [--temperature T] [--top-k K]\n"
            "  [--top-p P] [--seed N] [--room N] [--precision bf16] [--threads N]\n");
    return 2;
  }
  snprintf(room, sizeof room, "past_sequence_length=0::%lld", (long long)d.room);
  o.states = states, o.dims = dims;
  ek_session *session = ek_session_create();
  ek_model *model;
  ek_module *code;
  int good = 0;
  if (ek_load(session, argv[1], &model) || ek_compile(model, &o, &code) || !prepare(&d, code)) {
    fprintf(stderr, "%s\n", ek_message(session));
  } else {
    const int64_t prompt = make_prompt(&d, text, random, &s.random);
    s.choices = malloc((size_t)d.vocabulary * sizeof *s.choices),
    s.sums = malloc((size_t)d.vocabulary * sizeof *s.sums);
    if (prompt && s.choices && s.sums)
      good = generate(&d, &s, prompt, tokens);
    else
      fprintf(stderr, "the prompt needs tokens from 0 to %lld, %lld at most\n", (long long)d.vocabulary - 1,
              (long long)d.room);
  }
  free(s.choices), free(s.sums), free(d.tokens);
  ek_session_destroy(session);
  return !good;
}
