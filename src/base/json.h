/* json: a writer that streams into a string builder. Keys are NULL for the elements of an array and for the
 * outermost value. Commas and indentation are its business; nesting up to 64.
 * Numbers that JSON does not know (inf, nan) are written as null; bytes that are not UTF-8 become U+FFFD.
 * And a reader of texts. */
#ifndef EK_BASE_JSON_H
#define EK_BASE_JSON_H
#include "base/base.h"

typedef struct json {
  sbuf *b;        /* gets the text */
  bool pretty;    /* the text has line breaks and indentation */
  uint32_t depth; /* objects and arrays that are open, at most 64 */
  uint64_t some;  /* bit per depth: something was written there */
  uint64_t array; /* bit per depth: it is an array */
} json;

json json_new(sbuf *b, bool pretty);
void json_obj(json *j, const char *key); /* opens an object */
void json_arr(json *j, const char *key);
/* closes the innermost; a newline after the outermost when pretty */
void json_end(json *j);
void json_str(json *j, const char *key, const char *s); /* s NULL: writes null */
void json_strn(json *j, const char *key, const char *s, size_t n);
void json_num(json *j, const char *key, double x);
void json_int(json *j, const char *key, int64_t x);
void json_uint(json *j, const char *key, uint64_t x);
void json_bool(json *j, const char *key, bool x);
void json_null(json *j, const char *key);

/* Reads the string that begins at *p, which moves behind it. NULL: it is none, *p is at the place, and *wrong the
 * reason. Zero bytes and the halves of surrogate pairs are refused. */
const char *json_read_string(arena *a, const char **p, const char *end, const char **wrong);
/* An array of strings, such as ["a", "b"]; false: the text is something else. */
bool json_read_strings(arena *a, const char *text, strvec *out);
#endif
