//! What an exchange of nothing takes all the way from the head to a worker and back.

use bonfire_wire::proto;
use bonfire_wire::proto::frame::Body;

use super::Relaying;

impl Relaying {
    /// Passes the parent's echo on. Without workers it comes back from here.
    pub(super) fn echo_down(&mut self, echo: proto::Echo) {
        self.echoes = !self.workers.is_empty();
        let below = self.workers.values().map(|member| &member.outbox);
        for outbox in below.chain((!self.echoes).then_some(&self.parent)) {
            // One that is gone is heard of in the mail.
            let _ = outbox.send(Body::Echo(echo));
        }
    }

    /// A worker has answered: the first to do so has the shortest way.
    pub(super) fn echo_up(&mut self, echo: proto::Echo) {
        if std::mem::take(&mut self.echoes) {
            let _ = self.parent.send(Body::Echo(echo));
        }
    }
}
