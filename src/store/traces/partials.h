/* store/traces/partials.h - the traces in a partial, by their `process` lines as text. */
#pragma once

#include <stddef.h>

struct pfw_trace_file;
struct pfw_traces;

/* Add the traces in a partial; *room is that of traces->file.  0; -ENOMEM; or an error with a
 * constant text in *why, and none is added.  Thread: any, as all here. */
int pfw_partials_add(struct pfw_traces *traces, size_t *room, const char *path, const char **why);

/* Of sorted traces, drop those that are in several partials, without a word. */
void pfw_partials_drop_doubles(struct pfw_traces *traces);

/* The facts of a trace whose processes are read, renamed; to be freed.  NULL: no memory. */
char *pfw_partials_facts(const struct pfw_trace_file *file, const char *name, size_t *bytes);
