/* Included by digest.c once per width, with LANES defined: the same code on LANES hashes side by side. No include
 * guard on purpose. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define V JOIN(v, LANES)
#define F(name) JOIN(name##_, LANES)

static inline __attribute__((always_inline)) void F(mix)(V *v, int a, int b, int c, int d, const V *x, const V *y) {
  v[a] += v[b] + *x;
  v[d] = v[d] ^ v[a];
  v[d] = v[d] >> 16 | v[d] << 16;
  v[c] += v[d];
  v[b] = v[b] ^ v[c];
  v[b] = v[b] >> 12 | v[b] << 20;
  v[a] += v[b] + *y;
  v[d] = v[d] ^ v[a];
  v[d] = v[d] >> 8 | v[d] << 24;
  v[c] += v[d];
  v[b] = v[b] ^ v[c];
  v[b] = v[b] >> 7 | v[b] << 25;
}
/* v: the state before and after the seven rounds; m: sixteen words of message. */
static inline __attribute__((always_inline)) void F(rounds)(V *v, const V *m) {
#pragma GCC unroll 7
  for (int r = 0; r < 7; r++) {
    const uint8_t *s = order[r];
    F(mix)(v, 0, 4, 8, 12, &m[s[0]], &m[s[1]]);
    F(mix)(v, 1, 5, 9, 13, &m[s[2]], &m[s[3]]);
    F(mix)(v, 2, 6, 10, 14, &m[s[4]], &m[s[5]]);
    F(mix)(v, 3, 7, 11, 15, &m[s[6]], &m[s[7]]);
    F(mix)(v, 0, 5, 10, 15, &m[s[8]], &m[s[9]]);
    F(mix)(v, 1, 6, 11, 12, &m[s[10]], &m[s[11]]);
    F(mix)(v, 2, 7, 8, 13, &m[s[12]], &m[s[13]]);
    F(mix)(v, 3, 4, 9, 14, &m[s[14]], &m[s[15]]);
  }
}
#if LANES > 1
/* LANES pieces of `blocks` blocks each, `stride` bytes apart; a digest of 32 bytes per piece. chunk: pieces are
 * numbered from `counter`; else they are pairs of digests. */
static inline __attribute__((always_inline)) void F(lanes)(const uint8_t *p, size_t stride, int blocks,
                                                           uint64_t counter, bool chunk, uint8_t *out) {
  V h[8], m[16], lo, hi;
  for (int i = 0; i < 8; i++) h[i] = (V){0} + start[i];
  for (int l = 0; l < LANES; l++)
    lo[l] = chunk ? (uint32_t)(counter + (uint64_t)l) : 0,
    hi[l] = chunk ? (uint32_t)((counter + (uint64_t)l) >> 32) : 0;
  for (int b = 0; b < blocks; b++) {
    for (int part = 0; part < 16; part += LANES) { /* rows to columns: the perfect shuffle, as often as it takes */
      V r[LANES], q[LANES];
      for (int l = 0; l < LANES; l++)
        memcpy(&r[l], p + (size_t)l * stride + (size_t)b * 64 + (size_t)part * 4, sizeof(V));
#pragma GCC unroll 4
      for (int n = 1; n < LANES; n *= 2) {
        for (int l = 0; l < LANES / 2; l++) {
          q[2 * l] = ZIP_LOW(r[l], r[l + LANES / 2]);
          q[2 * l + 1] = ZIP_HIGH(r[l], r[l + LANES / 2]);
        }
        memcpy(r, q, sizeof r);
      }
      memcpy(m + part, r, sizeof r);
    }
    uint32_t flags = chunk ? (b == 0 ? CHUNK_START : 0u) | (b == blocks - 1 ? CHUNK_END : 0u) : PARENT;
    V v[16] = {[12] = lo, [13] = hi, [14] = (V){0} + 64, [15] = (V){0} + flags};
    memcpy(v, h, sizeof h);
    for (int i = 0; i < 4; i++) v[8 + i] = (V){0} + start[i];
    F(rounds)(v, m);
    for (int i = 0; i < 8; i++) h[i] = v[i] ^ v[i + 8];
  }
  for (int l = 0; l < LANES; l++)
    for (int i = 0; i < 8; i++) {
      uint32_t w = h[i][l];
      memcpy(out + 32 * l + 4 * i, &w, 4);
    }
}
#endif
#undef V
#undef F
#undef JOIN
#undef JOIN_
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
