/* tools/share/unasked.h - leaves indexes of large, finished traces without being asked.
 *
 * A command that can answer from indexes calls this if some are missing, and then tries again.  A failure
 * is not an error: without an index the lines are read.  docs/index_format.rst says when and where.
 */
#pragma once

#include "share/survey.h"

struct unasked {
	const struct cli_command *command;
	unsigned jobs; /* as in struct pfw_pass */
	bool quiet;
	const _Atomic bool *stop;
};

/* Make the indexes that these files lack, if all together have PFW_INDEX_EVENTS events or more, and
 * of more than ten files each has a tenth of that on average.
 * Return how many were made.  Thread: main, as all here. */
size_t unasked_indexes(const struct unasked *how, char *const *path, size_t count);

/* Make the indexes that these lack, of any size, and say nothing. */
void unasked_for_partial(const struct unasked *how, const struct pfw_traces *traces);

/* Whether something may be kept that was computed from so many events. */
bool unasked_wants(uint64_t events);
/* Say that a file was made, and so many more. */
void unasked_say(const struct cli_command *command, const char *where, size_t more);

/* The same for the traces of a survey, unless --no-index was given. */
size_t unasked_of_survey(struct survey *survey, const struct pfw_traces *traces);

/* Whether all of a trace is in its file: no process writes it, as far as can be known, and none was
 * killed that has left events in its spool. */
bool unasked_is_whole(const char *path);
