/* tools/report/markdown.c - a report to paste: findings, and tables as commands print them. */
#include <string.h>

#include "report/report.h"
#include "ui/cells.h"

static const struct {
	const char *title;
	const struct cli_command *command;
	enum report_of of;
	const char *word[2];
} parts[] = {
	{ "Overlap", &cli_overlap, OF_RUN, { NULL } },
	{ "Overlap of the run before", &cli_overlap, OF_BEFORE, { NULL } },
	{ "Compared: A is the run before, B is this one",
	  &cli_compare,
	  OF_BOTH,
	  { "--row-limit=15" } },
	{ "Names", &cli_table, OF_RUN, { "--row-limit=15" } },
	{ "Files", &cli_table, OF_RUN, { "--group-by=fname", "--row-limit=10" } },
	{ "How files are used", &cli_patterns, OF_RUN, { "--row-limit=10" } },
};

static void put_findings(struct report *report)
{
	struct finding found[ADVICE_RULES];
	size_t count = advice_find(&report->advice, found);

	puts("## What to look at first\n");
	if (!count)
		puts("No rule found a cost of a tenth of the time.");
	for (size_t i = 0; i < count; i++) {
		printf("%zu. **", i + 1);
		cell_put_md(stdout, found[i].text, strlen(found[i].text));
		printf(".** %s `%s`\n", found[i].remedy, found[i].query);
	}
}

/* The sheets have already printed the commands' messages about the traces. */
static int print_part(const struct report *report, size_t number)
{
	struct host_words words = { .count = 0 };

	host_word(&words, "--format=md");
	host_word(&words, "--quiet");
	host_list(&words, parts[number].word, CLI_ARRAY_LEN(parts[number].word));
	report_put_words(report, parts[number].of, &words);
	printf("\n## %s\n\n", parts[number].title);
	return host_run(NULL, parts[number].command, &words);
}

int report_markdown(struct report *report, FILE *out, const char *title)
{
	/* The commands print to standard output. */
	int before = out == stdout ? -1 : report_standard_output(fileno(out)), status = CLI_OK;

	if (out != stdout && before < 0)
		return CLI_USAGE;
	fputs("# ", stdout);
	cell_put_md(stdout, title, strlen(title));
	puts("\n");
	put_findings(report);
	for (size_t i = 0; i < CLI_ARRAY_LEN(parts) && status <= CLI_PROBLEMS; i++) {
		if (parts[i].of == OF_RUN || report->against)
			status = print_part(report, i);
	}
	if (before >= 0 ? report_standard_output_again(before) : fflush(stdout))
		status = CLI_USAGE;
	return status;
}
