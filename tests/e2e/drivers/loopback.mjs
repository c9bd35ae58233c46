// Loaded before server-everything (node --import): it would listen on every interface. This binds it to
// 127.0.0.1 on a free port and says which on standard error. It changes nothing else.

import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (_port, ...rest) {
  this.once('listening', () => process.stderr.write(`loopback port ${this.address().port}\n`));
  return listen.call(this, { host: '127.0.0.1', port: 0 }, ...rest.filter(a => typeof a === 'function'));
};
