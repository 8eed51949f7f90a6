/* outside.h - programs that start others where our environment does not reach. */
#ifndef PFW_OUTSIDE_H
#define PFW_OUTSIDE_H

#include <stdbool.h>

/* Whether words[0] is such a program (srun, docker, …); then the line to use instead is said. */
bool outside_refuse(int count, char *const *words);

#endif
