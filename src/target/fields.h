/* A target's text: read and written by the table of fields (fields.def). */
#ifndef EK_TARGET_FIELDS_H
#define EK_TARGET_FIELDS_H
#include "target/target.h"
bool target_text(const char *name, bytes *text); /* contents of a built-in target's file; false: there is none */
/* Reads a target file into *t, over what its fields have; name and file are for diagnostics. false: E_TARGET is
 * reported, for each bad line. Texts are allocated in the context's arena. */
bool target_read(ctx *c, const char *name, const char *file, bytes text, target *t);
#endif
