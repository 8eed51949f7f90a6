/* tools/completion.c - `pfw completion`: scripts for bash, zsh and fish from the option tables. */
#include <string.h>

#include "ui/cli.h"
#include "ui/embed.h"

enum kind {
	NOTHING, /* takes no argument */
	WORDS,	 /* one of the words of text|ndjson */
	LIST,	 /* several of them, with commas */
	FILES,
	OTHER,
};

/* What an option takes, where neither its argument's name nor values() of its command says it;
 * command NULL: of all of them. */
static const struct {
	const char *command, *option, *values;
} known[] = {
	{ "run", "step", "auto" },
	{ "run", "keep", "30s|64MiB" },
	{ "run", "stack", "min:1ms|every:1000" },
	{ "run", "compat", "dftracer" },
	{ "compact", "level", "1|2|3|4|5|6|7|8|9" },
	{ "query", "fields", "id|name|cat|pid|tid|ts|dur|ph|rank|step|args.fname|args.ret" },
	{ "compare", "group-by", "name|cat|fname|rank|step|tid" },
	{ "anonymise", "keep", "roots|extensions" },
	{ NULL, "cat", "POSIX|STDIO|NET|SYNC|PP|COUNTER|pfw" },
};

/* The values of an option as a|b|c, if they are known, else "". */
static const char *values_of(const struct cli_command *command, const struct cli_option *row,
			     char out[CLI_VALUES_BYTES])
{
	if (!row->argument)
		return "";
	if (strchr(row->argument, '|') && strcmp(row->argument, "DIR|FILE") != 0)
		return row->argument;
	for (size_t i = 0; i < CLI_ARRAY_LEN(known); i++) {
		if (strcmp(row->name, known[i].option) == 0 &&
		    (!known[i].command || strcmp(command->name, known[i].command) == 0))
			return known[i].values;
	}
	return command->values && command->values(row->name, out) ? out : "";
}

static enum kind kind_of(const char *argument, const char *values)
{
	/* OLD: a run; DIRS: with colons, where shells begin a word; S: a schedule, or its file. */
	static const char *const files[] = { "FILE", "BASE", "DIR", "DIRS", "DIR|FILE", "OLD", "S" };

	if (!argument)
		return NOTHING;
	if (*values)
		return strcmp(argument, "LIST") == 0 || strchr(argument, ',') ? LIST : WORDS;
	for (size_t i = 0; i < CLI_ARRAY_LEN(files); i++) {
		if (strcmp(argument, files[i]) == 0)
			return FILES;
	}
	return OTHER;
}

/* What the operands of a command are: bits. */
enum { TRACES = 1, ANY_FILES = 2, PIDS = 4, PROGRAM = 8, COMMANDS = 16 };

static unsigned operands_of(const struct cli_command *command)
{
	static const struct {
		const char *text;
		unsigned bit;
	} names[] = { { "PATH", TRACES }, { "A B", TRACES },	       { "FILE", ANY_FILES },
		      { "PID", PIDS },	  { "[SCHEDULE]", ANY_FILES }, { "PROGRAM", PROGRAM } };
	unsigned bits = 0;

	for (size_t i = 0; i < CLI_ARRAY_LEN(names); i++)
		bits |= strstr(command->operands, names[i].text) ? names[i].bit : 0;
	return bits;
}

/* Print the words of text|ndjson with spaces between them, and a backslash before ':'. */
static void put_values(FILE *out, const char *values, bool escaped)
{
	for (; *values; values++) {
		if (*values == ':' && escaped)
			fputc('\\', out);
		fputc(*values == '|' ? ' ' : *values, out);
	}
}

/* The words of operands like "PID start|stop" as start|stop, or NULL. */
static const char *words_of(const struct cli_command *command)
{
	const char *last = strrchr(command->operands, ' ');

	last = last ? last + 1 : command->operands;
	return strchr(last, '|') ? last : NULL;
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

/* ---- bash ---- */

static void bash_command(FILE *out, const struct cli_command *command)
{
	static const char *const names[] = { "traces", "files", "pids", "programs" };
	const char *words = words_of(command);
	unsigned operands = operands_of(command);

	fprintf(out, "\t%s) options='--help", command->name);
	for (const struct cli_option *row = command->options; row->name; row++)
		fprintf(out, " --%s", row->name);
	fputs("' what='", out);
	for (unsigned i = 0; i < CLI_ARRAY_LEN(names); i++)
		fprintf(out, "%s", operands & 1u << i ? names[i] : "");
	fputs("'", out);
	if (words) {
		fputs(" words='", out);
		put_values(out, words, false);
		fputs("'", out);
	}
	fprintf(out, "%s ;;\n", command->stops ? " runs=1" : "");
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
		fprintf(out, ") %svalues='", kind == LIST ? "list=1 " : "");
		put_values(out, *values ? values : kind == FILES ? "@files" : "@any", false);
		fputs("' ;;\n", out);
	}
}

/* What is done with the words and values of the tables before it. */
PFW_EMBED(completion_bash, "completion.bash");

static void put_bash(FILE *out)
{
	const struct cli_command *const *command;

	fputs("# bash completion for pfw: source <(pfw completion bash)\n"
	      "_pfw_values()\n{\n\tvalues= list=\n\tcase \"$command $1\" in\n"
	      "\t'help --format') values='text man rst' ;;\n",
	      out);
	for (command = cli_commands; *command; command++)
		bash_values(out, *command);
	fputs("\tesac\n\t[[ $values ]]\n}\n"
	      "_pfw()\n{\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal command= i options= words= what= runs=0 program= values= list= begin= all='",
	      out);
	for (command = cli_commands; *command; command++)
		fprintf(out, "%s%s", command == cli_commands ? "" : " ", (*command)->name);
	fputs("'\n\tif [[ $word == = ]]; then word=\n"
	      "\telif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tcase ${COMP_WORDS[i]} in -*) ;; *) command=${COMP_WORDS[i]}; break ;; esac\n"
	      "\tdone\n"
	      "\tcase $command in\n\t'') options='--help --version' words=\"help $all\" ;;\n"
	      "\thelp) options=--format words=$all ;;\n",
	      out);
	for (command = cli_commands; *command; command++)
		bash_command(out, *command);
	fputs(completion_bash, out);
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
		put_quoted(out, *values ? "one of" : row->argument, "[]:\\");
		fputc(':', out);
	}
	if (*values) {
		fputs(kind == LIST ? "_sequence compadd - " : "(", out);
		put_values(out, values, true);
		fputs(kind == LIST ? "" : ")", out);
	} else if (kind == FILES) {
		fputs(strcmp(row->argument, "DIRS") == 0 ? "_dir_list" : "_files", out);
	}
	fputs("' \\\n", out);
}

static void zsh_operands(FILE *out, const struct cli_command *command)
{
	/* All, where _pids has those of the terminal. */
	static const char pids[] = "_wanted processes expl process compadd - /proc/<->(N\\:t); ";
	static const char traces[] = "_files -g \"*.(pfw|pfw.gz|partial)\"";
	const char *words = words_of(command);
	unsigned operands = operands_of(command);

	if (command->stops)
		fputs("\t\t\t'*::program:_normal'", out);
	else if (operands & TRACES)
		fprintf(out, "\t\t\t'*:trace:{ %s%s }'", operands & PIDS ? pids : "", traces);
	else if (operands & PIDS)
		fprintf(out, "\t\t\t'1:process:{ %s}'", pids);
	else if (operands & PROGRAM)
		fputs("\t\t\t'1:program:{ _command_names -e; _files }'", out);
	else if (operands & ANY_FILES)
		fputs("\t\t\t'*:file:_files'", out);
	if (words) {
		fprintf(out, operands & PIDS ? " '2:word:(" : "\t\t\t'1:word:(");
		put_values(out, words, true);
		fputs(")'", out);
	}
}

static void zsh_command(FILE *out, const struct cli_command *command)
{
	fprintf(out, "\t%s)\n\t\t_arguments -s \\\n", command->name);
	for (const struct cli_option *row = command->options; row->name; row++)
		zsh_option(out, command, row);
	fputs("\t\t\t'(-h --help)'{-h,--help}'[print help]' \\\n", out);
	zsh_operands(out, command);
	fputs("\n\t\t;;\n", out);
}

static void put_zsh(FILE *out)
{
	fputs("#compdef pfw\n"
	      "# zsh completion for pfw: pfw completion zsh >_pfw, in a directory of $fpath\n"
	      "_pfw()\n{\n\tlocal curcontext=$curcontext state line\n\tlocal -a all=(\n",
	      out);
	for (const struct cli_command *const *command = cli_commands; *command; command++) {
		fprintf(out, "\t\t'%s:", (*command)->name);
		put_quoted(out, (*command)->summary, ":\\");
		fputs("'\n", out);
	}
	fputs("\t\t'help:Print help of a command'\n"
	      "\t)\n\t_arguments -C '1: :->command' '*:: :->rest'\n"
	      "\tif [[ $state == command ]]; then\n"
	      "\t\t_describe command all\n\t\treturn\n\tfi\n"
	      "\tcase $words[1] in\n"
	      "\thelp)\n\t\t_arguments '--format=[form of it]:one of:(text man rst)' \\\n"
	      "\t\t\t'1: :{ _describe command all }'\n\t\t;;\n",
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
	if (*values) {
		fputs(kind == LIST ? " -a '(__fish_append , " : " -a '", out);
		put_values(out, values, false);
		fputs(kind == LIST ? ")'" : "'", out);
	}
	fputs(" -d '", out);
	/* In single quotes of fish a backslash escapes. */
	for (const char *at = row->help; *at; at++) {
		if (*at == '\'' || *at == '\\')
			fputc('\\', out);
		fputc(*at, out);
	}
	fputs("'\n", out);
}

/* The program of `pfw run` and its words, behind two words and the options that take a value; not
 * behind "--", which fish would take for one of these. */
static void fish_program(FILE *out, const struct cli_command *command)
{
	fprintf(out,
		"complete -c pfw -n '__fish_seen_subcommand_from %s' "
		"-a '(__fish_complete_subcommand --fcs-skip=2 -",
		command->name);
	for (const struct cli_option *row = command->options; row->name; row++) {
		if (row->argument && row->letter)
			fprintf(out, " -%c", row->letter);
		if (row->argument)
			fprintf(out, " --%s", row->name);
	}
	fputs(")'\n", out);
}

static void fish_operands(FILE *out, const struct cli_command *command)
{
	static const struct {
		unsigned bits;
		const char *how;
	} ways[] = { { TRACES | ANY_FILES, "-F" },
		     { PIDS, "-a '(__fish_complete_pids)'" },
		     { PROGRAM, "-F -a '(__fish_complete_command)'" } };
	const char *words = words_of(command);

	if (command->stops) {
		fish_program(out, command);
		return;
	}
	for (size_t i = 0; i < CLI_ARRAY_LEN(ways); i++) {
		if (operands_of(command) & ways[i].bits)
			fprintf(out, "complete -c pfw -n '__fish_seen_subcommand_from %s' %s\n",
				command->name, ways[i].how);
	}
	if (words) {
		fprintf(out, "complete -c pfw -n '__fish_seen_subcommand_from %s' -a '",
			command->name);
		put_values(out, words, false);
		fputs("'\n", out);
	}
}

static void put_fish(FILE *out)
{
	fputs("# fish completion for pfw: pfw completion fish | source\n"
	      "complete -c pfw -f\n"
	      "complete -c pfw -n '__fish_seen_subcommand_from help' -l format -x -a 'text man rst'\n"
	      "complete -c pfw -n __fish_use_subcommand -a help -d 'Print help of a command'\n",
	      out);
	for (const struct cli_command *const *command = cli_commands; *command; command++) {
		const char *name = (*command)->name;

		fprintf(out,
			"complete -c pfw -n '__fish_use_subcommand; or __fish_seen_subcommand_from help' "
			"-a %s -d '",
			name);
		put_quoted(out, (*command)->summary, "");
		fputs("'\n", out);
		for (const struct cli_option *row = (*command)->options; row->name; row++)
			fish_option(out, *command, row);
		fish_operands(out, *command);
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
	int status = cli_read(&args, command, argc, argv, NULL, NULL);

	if (status >= 0)
		return status;
	for (size_t i = 0; i < CLI_ARRAY_LEN(shells) && args.operands == 1; i++) {
		if (strcmp(argv[0], shells[i].shell) == 0) {
			shells[i].put(stdout);
			return cli_finish(stdout, command, CLI_OK);
		}
	}
	return cli_error(command->name, "for which shell? bash, zsh or fish");
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
