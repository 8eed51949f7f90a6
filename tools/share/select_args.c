/* tools/share/select_args.c - takes the options that select lines; see select_args.h. */
#include "share/select_args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int select_args_take(struct pfw_select *select, const struct cli_args *args, int option)
{
	const char *name = args->row->name;
	char why[1024] = "";

	if (pfw_select_add(select, (enum pfw_select_option)(option - SELECT_ARGS), args->value, why,
			   sizeof(why)) == 0)
		return 0;
	if (option == SELECT_ARGS + PFW_SELECT_WHERE) /* `why` shows the place in the value */
		cli_error(args->command->name, "--%s: %s", name, why);
	else
		cli_error(args->command->name, "--%s %s: %s", name, cli_name(args->value), why);
	return -1;
}

const char *select_args_need_lines(const struct pfw_select *select)
{
	const struct {
		bool asked;
		const char *what;
	} conditions[] = {
		{ select->since.kind || select->until.kind, "--since or --until" },
		{ select->pid.count, "--pid" },
		{ select->tid.count, "--tid" },
		{ select->fname.count, "--fname" },
		{ select->step.count, "--step" },
		{ select->has_min_dur, "--min-dur" },
		{ select->where_count, "--where" },
	};

	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		if (conditions[i].asked)
			return conditions[i].what;
	}
	return NULL;
}

const char *select_args_but_rank(const struct pfw_select *select)
{
	return select->cat.count    ? "--cat"
	       : select->name.count ? "--name"
				    : select_args_need_lines(select);
}

const char *select_args_any(const struct pfw_select *select)
{
	return select->rank.count ? "--rank" : select_args_but_rank(select);
}

/* How many indexes were passed over, and the first one, which is named in the message. */
struct passed_over {
	char *path, why[256];
	size_t count;
};

static void pass_over(void *user, const char *path, const char *why)
{
	struct passed_over *over = user;

	if (over->count++)
		return;
	over->path = strdup(path);
	snprintf(over->why, sizeof(over->why), "%s", why);
}

int select_args_use_indexes(struct pfw_select *select, const struct cli_command *command,
			    struct pfw_traces *traces, bool quiet)
{
	struct passed_over over = { .count = 0 };
	int error = pfw_select_use_indexes(select, traces, pass_over, &over);

	if (over.path && !quiet && over.count == 1)
		cli_error(command->name, "%s.idx is not used: %s; `pfw index` makes it again",
			  cli_name(over.path), over.why);
	else if (over.path && !quiet)
		cli_error(command->name,
			  "%zu indexes are not used, the first %s.idx: %s; `pfw index` makes them "
			  "again",
			  over.count, cli_name(over.path), over.why);
	free(over.path);
	return error;
}

int select_args_check_ranks(const struct pfw_select *select, const struct cli_command *command,
			    const struct pfw_traces *traces)
{
	char why[256];

	if (!pfw_select_check_ranks(select, traces, why, sizeof(why)))
		return CLI_OK;
	return cli_error(command->name, "%s", why);
}

int select_args_resolve(struct pfw_select *select, const struct cli_command *command,
			const struct pfw_traces *traces, const struct pfw_extent_options *options)
{
	char why[256] = "";
	int error = pfw_select_resolve(select, traces, options, why, sizeof(why));

	if (error == -EINTR)
		return 130;
	if (error)
		cli_error(command->name, "%s", why);
	return error ? CLI_USAGE : CLI_OK;
}
