/* tools/report/flame.c - the flame graph of a page: what `pfw export --format svg` prints. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report/report.h"
#include "store/sys/full_io.h"

/* Stacks are in no index, so all lines are read, in order of time: of larger runs that takes too long. */
#define FILES_MOST 64u

static void say(void *user, const char *text)
{
	advice_note(&((struct report *)user)->notes, text);
}

static int run_export(struct report *report)
{
	/* The export prints no table. */
	const struct host host = { .user = report, .say = say, .stop = report->survey.stop };
	struct host_words words = { .count = 0 };

	host_word(&words, "--format=svg");
	host_word(&words, "--merge");
	for (size_t i = 0; i < report->words.count; i++) {
		if (strcmp(report->words.word[i], "--no-index") != 0) /* it needs none */
			host_word(&words, report->words.word[i]);
	}
	return host_run(&host, &cli_export, &words);
}

int report_standard_output(int fd)
{
	int before = fflush(stdout) ? -1 : dup(STDOUT_FILENO);

	if (before >= 0 && dup2(fd, STDOUT_FILENO) < 0) {
		close(before);
		before = -1;
	}
	return before;
}

int report_standard_output_again(int before)
{
	int error = fflush(stdout);

	dup2(before, STDOUT_FILENO);
	close(before);
	return error;
}

void report_flame(struct report *report, size_t files)
{
	int fd, before, status;
	size_t bytes;

	if (report->events > REPORT_LINES || files > FILES_MOST)
		return;
	fd = memfd_create("flame graph", MFD_CLOEXEC);
	before = fd < 0 ? -1 : report_standard_output(fd);
	if (before >= 0) {
		status = run_export(report);
		if (report_standard_output_again(before) == 0 && status <= CLI_PROBLEMS)
			pfw_full_read_file(fd, INT64_MAX, &report->flame, &bytes);
	}
	if (fd >= 0)
		close(fd);
	if (!report->flame)
		advice_note(&report->notes,
			    "the flame graph cannot be made: pfw export --format svg says why");
}
