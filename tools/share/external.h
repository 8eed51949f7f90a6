/* tools/share/external.h - commands that are programs of their own, mostly in Python. */
#pragma once

/* Run `pfw-WORD` of this binary's directory or the PATH in place of this process; argv[0] becomes
 * its name, argv[1] its first argument.  Returns only if there is none.  Thread: the only one. */
void external_run(const char *word, char **argv);
