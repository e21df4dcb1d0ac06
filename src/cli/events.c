/* Scalars for TensorBoard. An event file is a row of TFRecords, each with its length and masked CRC-32C sums; a record
 * is an Event in protobuf's wire format: wall time, step, and a Summary of named numbers. */
#include "cli/train.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- records --------------------------------------------------------------------------------- */
/* CRC-32C (Castagnoli), masked as the format wants it. */
static uint32_t masked_crc(const void *p, size_t n) {
  const uint8_t *s = p;
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < n; i++) {
    crc ^= s[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}
static void put_fixed(sbuf *b, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++) sb_putc(b, (char)(x >> (8 * i)));
}
static void put_record(sbuf *to, const sbuf *event) {
  const size_t at = to->n;
  put_fixed(to, event->n, 8);
  put_fixed(to, masked_crc(to->s + at, 8), 4);
  sb_putn(to, event->s, event->n);
  put_fixed(to, masked_crc(event->s, event->n), 4);
}

/* ---- messages: fields by number ---------------------------------------------------------------- */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
static void put_varint(sbuf *b, uint64_t x) {
  for (; x >= 0x80; x >>= 7) sb_putc(b, (char)(x | 0x80));
  sb_putc(b, (char)x);
}
static void put_field(sbuf *b, unsigned number, unsigned kind) { put_varint(b, (uint64_t)number << 3 | kind); }
static void put_bytes(sbuf *b, unsigned number, const char *s, size_t n) {
  put_field(b, number, BYTES);
  put_varint(b, n);
  sb_putn(b, s, n);
}
/* An Event so far: wall_time = 1, step = 2. */
static sbuf begin_event(cli *k, int64_t step) {
  struct timespec t;
  sbuf b = sbuf_new(k->a);
  clock_gettime(CLOCK_REALTIME, &t);
  const double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  uint64_t bits;
  memcpy(&bits, &now, sizeof bits);
  put_field(&b, 1, FIXED64);
  put_fixed(&b, bits, 8);
  if (!step) return b;
  put_field(&b, 2, VARINT);
  put_varint(&b, (uint64_t)step);
  return b;
}
/* A Summary.Value: tag = 1, simple_value = 2. */
void events_add(cli *k, sbuf *summary, const char *tag, double x) {
  sbuf v = sbuf_new(k->a);
  const float value = (float)x;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_bytes(&v, 1, tag, strlen(tag));
  put_field(&v, 2, FIXED32);
  put_fixed(&v, bits, 4);
  put_bytes(summary, 1, v.s, v.n);
}

/* ---- the file -------------------------------------------------------------------------------- */
static void append(cli *k, const char *path, const sbuf *records) {
  FILE *f = fopen(path, "ab");
  const bool good = f && fwrite(records->s, 1, records->n, f) == records->n;
  if ((f && fclose(f) != 0) || !good) ctx_fail(k->c, E_IO, "cannot write '%s': %s", path, strerror(errno));
}
const char *events_open(cli *k, const char *folder, int64_t step) {
  char host[64] = "";
  sbuf records = sbuf_new(k->a), version = begin_event(k, 0);
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    ctx_fail(k->c, E_IO, "cannot make the folder %s: %s", folder, strerror(errno));
  gethostname(host, sizeof host - 1);
  const char *path = path_join(
      k->a, folder, arena_fmt(k->a, "events.out.tfevents.%lld.%s.%ld", (long long)time(NULL), host, (long)getpid()));
  put_bytes(&version, 3, "brain.Event:2", 13); /* file_version */
  put_record(&records, &version);
  if (step) { /* session_log = 7, with status = 1 (START): what other files tell of this step and later ones is void */
    sbuf start = begin_event(k, step + 1);
    put_bytes(&start, 7, "\x08\x01", 2);
    put_record(&records, &start);
  }
  append(k, path, &records);
  return path;
}
void events_write(cli *k, const char *path, int64_t step, const sbuf *summary) {
  sbuf event = begin_event(k, step), records = sbuf_new(k->a);
  put_bytes(&event, 5, summary->s, summary->n);
  put_record(&records, &event);
  append(k, path, &records);
}
