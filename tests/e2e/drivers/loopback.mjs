// Loaded before server-everything (node --import), which would otherwise listen on every interface: binds it to 127.0.0.1 on a
// free port, and prints the port to standard error.

import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (_port, ...rest) {
  this.once('listening', () => process.stderr.write(`loopback port ${this.address().port}\n`));
  return listen.call(this, { host: '127.0.0.1', port: 0 }, ...rest.filter(a => typeof a === 'function'));
};
