// Which cases run: all, or those of the argument `--only TEXT`, whose names have this text.

const at = process.argv.indexOf('--only');
const only = at < 0 ? '' : process.argv[at + 1];

export const isWanted = (name) => name.includes(only);
