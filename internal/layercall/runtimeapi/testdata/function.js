exports.handler = async (event) => {
  if (event.do === "raise") {
    throw new RangeError(event.text);
  }
  if (event.do === "die") {
    process.exit(3);
  }
  return { text: event.text };
};
