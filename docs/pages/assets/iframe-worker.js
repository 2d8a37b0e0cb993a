// Browsers start no workers for pages that are opened as files. The search then runs in a hidden
// frame, which has what it asks of a worker: importScripts, postMessage and messages.
if (location.protocol === "file:") {
  window.Worker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentDocument;
      inner.open();
      inner.write(
        "<html><body><script>" +
          "postMessage = (data) => parent.postMessage(data, '*');" +
          "importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise(" +
          "(loaded) => { const script = document.createElement('script'); script.src = url;" +
          "script.onload = loaded; document.body.appendChild(script); })), Promise.resolve());" +
          "</" + "script><script src='" + url + "'></" + "script></body></html>"
      );
      inner.close();
      this.ready = new Promise((loaded) => (this.frame.contentWindow.onload = loaded));
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
    }
    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(
          new MessageEvent("message", structuredClone({ data }))
        )
      );
    }
    terminate() {
      this.frame.remove();
    }
  };
}
