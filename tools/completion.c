/* tools/completion.c - `pfw completion`: scripts for bash, zsh and fish, made from the option
 * tables.
 */
#include <string.h>

#include "ui/cli.h"

enum kind {
	NOTHING, /* takes no argument */
	WORDS,	 /* one of the words of text|ndjson */
	FILES,
	OTHER,
};

/* The values of an option as a|b|c, if they are known, else "". */
static const char *values_of(const struct cli_command *command, const struct cli_option *row,
			     char out[CLI_VALUES_BYTES])
{
	if (row->argument && strchr(row->argument, '|'))
		return row->argument;
	return row->argument && command->values && command->values(row->name, out) ? out : "";
}

static enum kind kind_of(const char *argument, const char *values)
{
	static const char *const files[] = { "FILE", "BASE", "DIR", "PATH", "SCHEDULE-FILE" };

	if (!argument)
		return NOTHING;
	if (*values)
		return WORDS;
	for (size_t i = 0; i < CLI_ARRAY_LEN(files); i++) {
		if (strcmp(argument, files[i]) == 0)
			return FILES;
	}
	return OTHER;
}

/* Print the alternatives of a text like "PID start|stop" between two texts.  False: it has none. */
static bool put_words(FILE *out, const char *before, const char *text, const char *after)
{
	const char *at = strchr(text, '|');

	if (!at)
		return false;
	while (at > text && at[-1] != ' ' && at[-1] != '[')
		at--;
	fputs(before, out);
	for (; *at && *at != ' ' && *at != ']'; at++)
		fputc(*at == '|' ? ' ' : *at, out);
	fputs(after, out);
	return true;
}

/* Print a text for use between single quotes; a backslash escapes the characters of `special`. */
static void put_quoted(FILE *out, const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (strchr(special, *text))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static bool takes_traces(const struct cli_command *command)
{
	return strstr(command->operands, "PATH") != NULL;
}

/* ---- bash ---- */

static void bash_options(FILE *out, const struct cli_command *command)
{
	fprintf(out, "\t%s) options='--help", command->name);
	for (const struct cli_option *row = command->options; row->name; row++)
		fprintf(out, " --%s", row->name);
	fputs("'", out);
	put_words(out, " words='", command->operands, "'");
	if (takes_traces(command))
		fputs(" traces=1", out);
	if (command->stops)
		fputs(" runs=1", out);
	fputs(" ;;\n", out);
}

static void bash_values(FILE *out, const struct cli_command *command)
{
	for (const struct cli_option *row = command->options; row->name; row++) {
		char space[CLI_VALUES_BYTES];
		const char *values = values_of(command, row, space);
		enum kind kind = kind_of(row->argument, values);

		if (kind == NOTHING)
			continue;
		fprintf(out, "\t'%s --%s'", command->name, row->name);
		if (row->letter)
			fprintf(out, " | '%s -%c'", command->name, row->letter);
		if (kind == WORDS)
			put_words(out, ") values='", values, "' ;;\n");
		else
			fprintf(out, ") values=%s ;;\n", kind == FILES ? "@files" : "@any");
	}
}

static void put_bash(FILE *out)
{
	fputs("# bash completion for pfw: source <(pfw completion bash)\n"
	      "_pfw()\n{\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal command= at=0 i options= words= traces= runs= values=\n\n"
	      "\tCOMPREPLY=()\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tcase ${COMP_WORDS[i]} in -*) ;; *) command=${COMP_WORDS[i]} at=$i; break ;; esac\n"
	      "\tdone\n"
	      "\tcase $command in\n\t'') options='--help --version' words='help",
	      out);
	for (const struct cli_command *const *command = cli_commands; *command; command++)
		fprintf(out, " %s", (*command)->name);
	fputs("' ;;\n", out);
	for (const struct cli_command *const *command = cli_commands; *command; command++)
		bash_options(out, *command);
	fputs("\tesac\n\tcase \"$command $before\" in\n", out);
	for (const struct cli_command *const *command = cli_commands; *command; command++)
		bash_values(out, *command);
	fputs("\tesac\n"
	      "\tcase $values in\n"
	      "\t@files) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
	      "\t@any) return ;;\n"
	      "\t?*) COMPREPLY=($(compgen -W \"$values\" -- \"$word\")); return ;;\n"
	      "\tesac\n"
	      "\tif [[ $word == -* ]]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
	      "\telif [[ $runs ]]; then\n"
	      "\t\tcompopt -o filenames; COMPREPLY=($(compgen -A command -- \"$word\")"
	      " $(compgen -f -- \"$word\"))\n"
	      "\telif [[ $traces ]]; then\n"
	      "\t\tcompopt -o filenames\n"
	      "\t\tCOMPREPLY=($(compgen -d -- \"$word\") $(compgen -f -X '!*.pfw' -- \"$word\")"
	      " $(compgen -f -X '!*.pfw.gz' -- \"$word\"))\n"
	      "\telse\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	      "\tfi\n"
	      "} 2>/dev/null\n"
	      "complete -F _pfw pfw\n",
	      out);
}

/* ---- zsh ---- */

static void zsh_option(FILE *out, const struct cli_command *command, const struct cli_option *row)
{
	char space[CLI_VALUES_BYTES];
	const char *values = values_of(command, row, space);
	enum kind kind = kind_of(row->argument, values);
	const char *equals = kind == NOTHING ? "" : "=";

	if (row->letter)
		fprintf(out, "\t\t\t'(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name,
			row->letter, kind == NOTHING ? "" : "+", row->name, equals);
	else
		fprintf(out, "\t\t\t'--%s%s[", row->name, equals);
	put_quoted(out, row->help, "[]:\\");
	fputc(']', out);
	if (kind != NOTHING) {
		fputc(':', out);
		put_quoted(out, kind == WORDS ? "one of" : row->argument, "[]:\\");
		fputc(':', out);
	}
	if (kind == WORDS)
		put_words(out, "(", values, ")");
	else if (kind == FILES)
		fputs("_files", out);
	fputs("' \\\n", out);
}

static void zsh_command(FILE *out, const struct cli_command *command)
{
	fprintf(out, "\t%s)\n\t\t_arguments -s \\\n", command->name);
	for (const struct cli_option *row = command->options; row->name; row++)
		zsh_option(out, command, row);
	fputs("\t\t\t'(-h --help)'{-h,--help}'[print help]' \\\n", out);
	if (command->stops)
		fputs("\t\t\t'*::program:_normal'\n", out);
	else if (takes_traces(command))
		fputs("\t\t\t'*:trace:_files -g \"*.pfw(|.gz)\"'\n", out);
	else if (!put_words(out, "\t\t\t'*:word:(", command->operands, ")'\n"))
		fputs("\t\t\t'*: :_files'\n", out);
	fputs("\t\t;;\n", out);
}

static void put_zsh(FILE *out)
{
	fputs("#compdef pfw\n"
	      "# zsh completion for pfw: pfw completion zsh >_pfw, in a directory of $fpath\n"
	      "_pfw()\n{\n\tlocal curcontext=$curcontext state line\n\tlocal -a commands=(\n",
	      out);
	for (const struct cli_command *const *command = cli_commands; *command; command++) {
		fprintf(out, "\t\t'%s:", (*command)->name);
		put_quoted(out, (*command)->summary, ":\\");
		fputs("'\n", out);
	}
	fputs("\t)\n\t_arguments -C '1: :->command' '*:: :->rest'\n"
	      "\tif [[ $state == command ]]; then\n"
	      "\t\t_describe command commands\n\t\treturn\n\tfi\n"
	      "\tcase $words[1] in\n",
	      out);
	for (const struct cli_command *const *command = cli_commands; *command; command++)
		zsh_command(out, *command);
	fputs("\tesac\n}\n_pfw \"$@\"\n", out);
}

/* ---- fish ---- */

static void fish_option(FILE *out, const struct cli_command *command, const struct cli_option *row)
{
	char space[CLI_VALUES_BYTES];
	const char *values = values_of(command, row, space);
	enum kind kind = kind_of(row->argument, values);

	fprintf(out, "complete -c pfw -n '__fish_seen_subcommand_from %s' -l %s", command->name,
		row->name);
	if (row->letter)
		fprintf(out, " -s %c", row->letter);
	if (kind == FILES)
		fputs(" -r -F", out);
	else if (kind != NOTHING)
		fputs(" -x", out);
	if (kind == WORDS)
		put_words(out, " -a '", values, "'");
	fputs(" -d '", out);
	/* In single quotes of fish a backslash escapes. */
	for (const char *at = row->help; *at; at++) {
		if (*at == '\'' || *at == '\\')
			fputc('\\', out);
		fputc(*at, out);
	}
	fputs("'\n", out);
}

static void put_fish(FILE *out)
{
	fputs("# fish completion for pfw: pfw completion fish | source\n"
	      "complete -c pfw -f\n",
	      out);
	for (const struct cli_command *const *command = cli_commands; *command; command++) {
		const char *name = (*command)->name;

		fprintf(out, "complete -c pfw -n __fish_use_subcommand -a %s -d '", name);
		put_quoted(out, (*command)->summary, "");
		fputs("'\n", out);
		for (const struct cli_option *row = (*command)->options; row->name; row++)
			fish_option(out, *command, row);
		fprintf(out, "complete -c pfw -n '__fish_seen_subcommand_from %s' ", name);
		if (!put_words(out, "-a '", (*command)->operands, "'\n"))
			fputs("-F\n", out);
	}
}

/* ---- the command ---- */

static const struct cli_option options[] = { { 0 } };

static int completion(const struct cli_command *command, int argc, char **argv)
{
	static const struct {
		const char *shell;
		void (*put)(FILE *out);
	} shells[] = { { "bash", put_bash }, { "zsh", put_zsh }, { "fish", put_fish } };
	struct cli_args args;
	int option;

	cli_args_init(&args, command, argc, argv);
	option = cli_next(&args);
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	for (size_t i = 0; i < CLI_ARRAY_LEN(shells) && args.operands == 1; i++) {
		if (strcmp(argv[0], shells[i].shell) == 0) {
			shells[i].put(stdout);
			return cli_finish(stdout, command, CLI_OK);
		}
	}
	cli_error(command->name, "for which shell? bash, zsh or fish");
	return CLI_USAGE;
}

const struct cli_command cli_completion = {
	.name = "completion",
	.operands = "bash|zsh|fish",
	.summary = "Print a shell's completion script for pfw",
	.options = options,
	.failure = CLI_USAGE,
	.main = completion,
	.details = "bash: source <(pfw completion bash), in ~/.bashrc\n"
		   "zsh:  pfw completion zsh >_pfw, in a directory of $fpath\n"
		   "fish: pfw completion fish >~/.config/fish/completions/pfw.fish\n"
		   "An installed pfw has these files and its manual pages in the shells'\n"
		   "directories.\n",
};
