/* select_args.c - the options that say which lines are wanted; see select_args.h. */
#include "select_args.h"

#include <errno.h>

int select_args_take(struct pfw_select *select, const struct cli_args *args, int option)
{
	const struct cli_option *row = args->command->options;
	char why[1024] = "";

	if (option == SELECT_ARGS_META) {
		select->meta = true;
		return 1;
	}
	if (option < SELECT_ARGS || option > SELECT_ARGS + PFW_SELECT_WHERE)
		return 0;
	if (pfw_select_add(select, (enum pfw_select_option)(option - SELECT_ARGS), args->value, why,
			   sizeof(why)) == 0)
		return 1;
	while (row->id != option)
		row++;
	if (option == SELECT_ARGS + PFW_SELECT_WHERE) /* shows the place in it */
		cli_error(args->command->name, "--%s: %s", row->name, why);
	else
		cli_error(args->command->name, "--%s %s: %s", row->name, cli_name(args->value),
			  why);
	return -1;
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
